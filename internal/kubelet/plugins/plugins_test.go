package plugins_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/millrace/millrace/internal/kubelet/plugins"
)

// plugin says who it is.
type plugin struct {
	registration.UnimplementedRegistrationServer
	kind   string
	status chan *registration.RegistrationStatus
}

func (p *plugin) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: p.kind, Name: "it", SupportedVersions: []string{"v1"}}, nil
}

func (p *plugin) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	p.status <- s
	return &registration.RegistrationStatusResponse{}, nil
}

// serve begins a plugin, at a socket of a name.
func serve(t *testing.T, root, name, kind string) (p *plugin, stop func()) {
	t.Helper()
	p = &plugin{kind: kind, status: make(chan *registration.RegistrationStatus, 8)}
	socket := filepath.Join(root, "plugins_registry", name)
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, p)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	return p, func() { server.Stop(); <-served }
}

// handler notes what it is told.
type handler struct {
	told   chan string
	refuse chan error
}

func (h handler) Accept(_ context.Context, p plugins.Plugin) error {
	h.told <- "accept " + p.Name + " at " + filepath.Base(p.Endpoint) + " " + strings.Join(p.Versions, ",")
	select {
	case err := <-h.refuse:
		return err
	default:
		return nil
	}
}

func (h handler) Drop(_ context.Context, p plugins.Plugin) { h.told <- "drop " + p.Name }

func (h handler) Close() { h.told <- "close" }

func TestPluginsComeAndGoWithTheirSockets(t *testing.T) {
	root, err := os.MkdirTemp("", "plugins") // short: a socket's path has 108 bytes at the most
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	h := handler{told: make(chan string, 8), refuse: make(chan error, 1)}
	registry := plugins.New(plugins.Options{Root: root, Handlers: map[string]plugins.Handler{"Good": h}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- registry.Run(ctx) }()
	told := func(want string) {
		t.Helper()
		if got := <-h.told; got != want {
			t.Errorf("the handler was told %q, want %q", got, want)
		}
	}

	strange, stopStrange := serve(t, root, "strange.sock", "Strange")
	if s := <-strange.status; s.PluginRegistered || !strings.Contains(s.Error, "no handler registered for plugin type: Strange at socket ") {
		t.Errorf("a strange plugin is told %v", s)
	}
	h.refuse <- errors.New("too old")
	good, stopGood := serve(t, root, "good.sock", "Good")
	told("accept it at good.sock v1")
	if s := <-good.status; s.PluginRegistered || s.Error != "too old" {
		t.Errorf("a plugin that is refused is told %v", s)
	}
	told("accept it at good.sock v1") // once more
	if s := <-good.status; !s.PluginRegistered || s.Error != "" {
		t.Errorf("a plugin that is accepted is told %v", s)
	}
	stopGood()
	told("drop it")
	_, stopGood = serve(t, root, "good.sock", "Good")
	told("accept it at good.sock v1")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	told("close")
	stopGood()
	stopStrange()
	if len(strange.status) != 0 {
		t.Error("a plugin that nobody handles was asked again")
	}
}
