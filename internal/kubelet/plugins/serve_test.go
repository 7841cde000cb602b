package plugins_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/millrace/millrace/internal/kubelet/plugins"
)

func TestASocketThatIsRemovedIsMadeAgain(t *testing.T) {
	directory, err := os.MkdirTemp("", "sv") // short: a socket's path has 108 bytes at the most
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(directory)
	socket := filepath.Join(directory, "below", "a.sock")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- plugins.Serve(ctx, socket, func(s grpc.ServiceRegistrar) { healthpb.RegisterHealthServer(s, health.NewServer()) })
	}()
	answers := func() {
		t.Helper()
		for !plugins.Answers(socket) {
			select {
			case err := <-ended:
				t.Fatalf("it has ended: %v", err)
			case <-time.After(5 * time.Millisecond):
			}
		}
		c, err := plugins.Dial(socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := healthpb.NewHealthClient(c).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
			t.Error(err)
		}
	}
	answers()
	for range 2 {
		if err := os.RemoveAll(filepath.Dir(socket)); err != nil {
			t.Fatal(err)
		}
		answers()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}
