// Package secure serves what a program of the cluster tells of itself: health, metrics and configuration, over TLS, to those whom the
// API server lets in.
//
// What is guaranteed:
//
//   - /healthz, /livez and /readyz are for everybody, and whatever else Options.Open names.
//   - Who asks for anything else is found out by a client certificate of the authorities, or by a TokenReview, and is let in if a
//     SubjectAccessReview says so. While the API server does not answer nobody is.
//   - What was found out is remembered for ten seconds, of a bounded number of clients, so that a scraper costs no reviews.
//   - Without a certificate in files the server makes one, signed by itself, that is never written down.
package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/kubernetes"
)

// Check is a part of the health of a program. Do returns nil if it is well.
type Check struct {
	Name string
	Do   func(*http.Request) error
	// Live says that /livez looks at it, Ready that /readyz does. /healthz looks at all.
	Live, Ready bool
}

// Options say what is served and to whom.
type Options struct {
	// Kube is asked who clients are and what they may.
	Kube kubernetes.Interface
	// Certificate is shown to clients: one that is made, if it is nil.
	Certificate func() (*tls.Certificate, error)
	// Hosts are the names and addresses in a certificate that is made.
	Hosts []string
	// Clients are authorities of client certificates; nil are none.
	Clients *x509.CertPool
	// Open are paths that everybody may ask for: those of health by default. One that ends in "/*" is all below.
	Open []string
	// Checks make up the health.
	Checks []Check
	// Metrics are served at /metrics, Configuration at /configz, and More at their paths.
	Metrics       prometheus.Gatherer
	Configuration func() map[string]any
	More          map[string]http.Handler
	Logger        *slog.Logger
	Now           func() time.Time
}

// Server answers on a port. It is a loop.Runner.
type Server struct {
	o           Options
	listener    net.Listener
	mux         *http.ServeMux
	certificate func() (*tls.Certificate, error)
	who         memory[identity]
	may         memory[bool]
}

// Open takes the port.
func Open(ctx context.Context, address string, o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Open == nil {
		o.Open = []string{"/healthz", "/livez", "/readyz"}
	}
	s := &Server{o: o, mux: http.NewServeMux(), certificate: o.Certificate}
	if s.certificate == nil {
		made, err := selfSigned(o.Hosts)
		if err != nil {
			return nil, fmt.Errorf("make a certificate to serve: %w", err)
		}
		s.certificate = func() (*tls.Certificate, error) { return made, nil }
	}
	s.route()
	var err error
	if s.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address); err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return s, nil
}

// Address is where the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

func (s *Server) route() {
	handle := func(path string, h http.Handler) { s.mux.Handle(path, s.guard(h)) }
	for path, which := range map[string]func(Check) bool{
		"/healthz": func(Check) bool { return true }, "/livez": func(c Check) bool { return c.Live }, "/readyz": func(c Check) bool { return c.Ready },
	} {
		h := health{name: path[1:], checks: slices.DeleteFunc(slices.Clone(s.o.Checks), func(c Check) bool { return !which(c) })}
		handle("GET "+path, h)
		handle("GET "+path+"/{check}", h)
	}
	if s.o.Metrics != nil {
		handle("GET /metrics", promhttp.HandlerFor(s.o.Metrics, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	}
	if s.o.Configuration != nil {
		handle("GET /configz", configuration(s.o.Configuration))
	}
	for path, h := range s.o.More {
		handle(path, h)
	}
	handle("/", http.NotFoundHandler())
}

// Run answers until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	server := &http.Server{
		Handler: s.mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 90 * time.Second, MaxHeaderBytes: 1 << 16,
		ErrorLog: slog.NewLogLogger(s.o.Logger.Handler(), slog.LevelDebug),
		TLSConfig: &tls.Config{
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate() },
			ClientAuth:     tls.RequestClientCert, MinVersion: tls.VersionTLS12,
		},
	}
	stopped := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		defer close(stopped)
		_ = server.Close() // those who ask will ask again
	})()
	if err := server.ServeTLS(s.listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", s.Address(), err)
	}
	<-stopped
	return nil
}

// Close gives the port back, of a server that does not run.
func (s *Server) Close() error { return s.listener.Close() }
