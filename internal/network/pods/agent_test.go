//go:build linux

package pods

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/internal/network/internal/nettest"
	"github.com/millrace/millrace/loop"
)

// lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// TestANodeThatGetsNoRangesIsWarnedOfOnce: every node has none in the moment in which it registers.
func TestANodeThatGetsNoRangesIsWarnedOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := loop.ClientsFor(fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}))
		var log lines
		agent, err := New(Options{Clients: clients, Node: "a", Interval: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- clients.Run(ctx) }()
		go func() { ended <- agent.Run(ctx) }()
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if log.String() != "" {
			t.Errorf("at first: %s", log.String())
		}
		time.Sleep(time.Hour)
		stop()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if strings.Count(log.String(), "level=") != 1 || !strings.Contains(log.String(), "level=WARN") {
			t.Errorf("after an hour: %s", log.String())
		}
	})
}

func TestAHostPortThatAnotherPodHasIsCalledTaken(t *testing.T) {
	c := &cluster{t, fake.NewClientset()}
	a := c.machine("a", []string{"10.0.0.1"}, "10.244.1.0/24")
	nettest.Join(a.net, "eth0", []string{"10.0.0.1/24"}, nettest.New(t), "eth0", nil)
	c.run(a)
	taken := PortMapping{HostPort: 9090, ContainerPort: 8080, Protocol: "tcp"}
	a.pod("first", taken)
	configuration := a.configuration()
	configuration.Runtime.PortMappings = []PortMapping{taken}
	if _, err := a.call("ADD", "second", nettest.New(t), configuration); err == nil || !strings.Contains(err.Error(), "another pod of this node has one of them") {
		t.Errorf("the second pod's answer is %v", err)
	}
}
