package web_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/assembly/access"
	"github.com/millrace/millrace/internal/assembly/address"
	"github.com/millrace/millrace/internal/assembly/extensions"
	"github.com/millrace/millrace/internal/assembly/objects"
	"github.com/millrace/millrace/internal/assembly/plugins"
	"github.com/millrace/millrace/internal/assembly/storage"
	"github.com/millrace/millrace/internal/assembly/web"
	"github.com/millrace/millrace/internal/server/inprocess"
)

// server are the parts that answer requests, without those that send them.
type server struct {
	*assembly.List
	address *address.Address
	access  *access.Access
}

// start starts all parts up to the API.
func start(ctx context.Context, o web.Options) (*server, error) {
	log, metrics := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	services := netip.MustParsePrefix("10.96.0.0/16")
	service := services.Addr().Next()
	at := address.New(address.Options{Listen: "127.0.0.1:0", Logger: log})
	kept := storage.New(storage.Options{Logger: log})
	issuers := []string{"https://kubernetes.default.svc.cluster.local"}
	who := access.New(access.Options{
		Tokens: access.Tokens{Issuers: issuers, Audiences: issuers}, Modes: []string{"Node", "RBAC"}, ServiceAddress: service, Metrics: metrics, Logger: log,
	}, at, kept)
	steps := plugins.New(plugins.Options{ServiceRanges: []netip.Prefix{services}, Metrics: metrics, Logger: log}, at, kept, who)
	first := objects.New(objects.Options{ServiceAddress: service, Logger: log}, at, kept, who)
	more := extensions.New(extensions.Options{Logger: log}, at, kept, who, steps)
	o.ServiceAddress, o.Version, o.Metrics, o.Logger = service, version.Info{Major: "1", Minor: "37"}, metrics, log
	api := web.New(o, at, kept, who, more)
	s := &server{List: assembly.New(log), address: at, access: who}
	return s, s.Start(ctx, at, kept, who, steps, first, more, api, assembly.Func(api.Announce))
}

func TestThePartsUpToTheAPIAnswerAndLeaveNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s, err := start(t.Context(), web.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	kube, err := kubernetes.NewForConfig(s.address.Config())
	if err != nil {
		t.Fatal(err)
	}
	namespaces, err := kube.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(namespaces.Items) != 4 {
		t.Errorf("%v, %v", namespaces, err)
	}
	if code, text := s.ask(t, "/readyz"); code != http.StatusOK {
		t.Errorf("%d: %s", code, text)
	}
	if code, text := s.ask(t, "/api/v1/services"); code != http.StatusForbidden {
		t.Errorf("somebody without credentials gets %d: %s", code, text)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, before)
	if _, err := kube.CoreV1().Namespaces().List(context.Background(), metav1.ListOptions{}); !errors.Is(err, inprocess.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", s.address.Listening)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// ask asks through the port, without credentials.
func (s *server) ask(t *testing.T, path string) (code int, text string) {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.access.Authorities())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.address.URL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(b)
}
