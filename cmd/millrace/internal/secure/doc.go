// Package secure serves a component's health, metrics and configuration over TLS, to clients that the API server
// authorizes.
//
// Guarantees:
//
//   - /healthz, /livez and /readyz are open to everybody, and so is every path in Options.Open.
//   - For anything else a client is authenticated by a proxy in front (Options.Front), by a client certificate of the
//     given CA or by a TokenReview, and authorized by a SubjectAccessReview. While the API server does not answer,
//     nobody is authorized.
//   - Results are cached, for ten seconds by default and for a bounded number of clients, so that a scraper costs no
//     reviews.
//   - Without certificate files the server makes a self-signed certificate, which is never stored.
package secure

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/kubernetes"
)

// Check is one health check. Do returns nil if the component is healthy.
type Check struct {
	Name string
	Do   func(*http.Request) error
	// Live includes the check in /livez, Ready in /readyz. /healthz includes all.
	Live, Ready bool
}

// Who is an authenticated client.
type Who struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
}

// Options configure a Server.
type Options struct {
	// Kube creates the TokenReviews. Access creates the SubjectAccessReviews: Kube if it is nil.
	Kube, Access kubernetes.Interface
	// TLS configures the port, and has the serving certificate. It must request client certificates without verifying
	// them. If it is nil, a self-signed certificate is made.
	TLS *tls.Config
	// Clients has the CA of client certificates, or is nil.
	Clients *x509.CertPool
	// Front returns the client for which a proxy asks that has authenticated it, and false if no proxy asks. It may be
	// nil. An error means that somebody else claims to be the proxy.
	Front func(r *http.Request) (Who, bool, error)
	// TokensFor, AllowedFor and DeniedFor are how long results are cached: of TokenReviews, and of SubjectAccessReviews
	// that allow and that do not. 0 means 10 s; a negative value caches nothing.
	TokensFor, AllowedFor, DeniedFor time.Duration
	// Open lists the paths that need no authorization: the health paths by default. One that ends in "/*" includes all
	// paths below.
	Open []string
	// Checks make up the health.
	Checks []Check
	// Metrics is served at /metrics, Configuration at /configz, and More at its paths.
	Metrics       prometheus.Gatherer
	Configuration func() map[string]any
	More          map[string]http.Handler
	// Profiling serves profiles of the process below /debug/pprof.
	Profiling bool
	Logger    *slog.Logger
	Now       func() time.Time
}

// Server is an HTTPS server. It is a loop.Runner.
type Server struct {
	o        Options
	listener net.Listener
	mux      *http.ServeMux
	who      memory[Who]
	may      memory[bool]
}

// Open opens the port.
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
	if o.Access == nil {
		o.Access = o.Kube
	}
	for _, d := range []*time.Duration{&o.TokensFor, &o.AllowedFor, &o.DeniedFor} {
		*d = cmp.Or(*d, remembered)
	}
	if o.TLS == nil {
		made, err := SelfSigned()
		if err != nil {
			return nil, err
		}
		o.TLS = &tls.Config{Certificates: []tls.Certificate{*made}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	}
	s := &Server{o: o, mux: http.NewServeMux()}
	s.route()
	var err error
	if s.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address); err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return s, nil
}

// Address returns the listener's address.
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
	if s.o.Profiling {
		for path, h := range map[string]http.HandlerFunc{
			"/": pprof.Index, "/cmdline": pprof.Cmdline, "/profile": pprof.Profile, "/symbol": pprof.Symbol, "/trace": pprof.Trace,
		} {
			handle("/debug/pprof"+path, h)
		}
	}
	handle("/", http.NotFoundHandler())
}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	server := &http.Server{
		Handler: s.mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 90 * time.Second, MaxHeaderBytes: 1 << 16,
		ErrorLog:  slog.NewLogLogger(s.o.Logger.Handler(), slog.LevelDebug),
		TLSConfig: s.o.TLS.Clone(),
	}
	stopped := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		defer close(stopped)
		_ = server.Close() // clients will retry
	})()
	if err := server.ServeTLS(s.listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", s.Address(), err)
	}
	<-stopped
	return nil
}

// Close closes the port of a server that was not run.
func (s *Server) Close() error { return s.listener.Close() }
