package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/klog/v2"
)

// Node is the node that a Server serves.
type Node interface {
	// Pod returns a pod of the node. Pods returns all.
	Pod(namespace, name string) (*corev1.Pod, bool)
	Pods() []*corev1.Pod
	// Logs writes a container's log. An error before the first byte becomes the answer; see Problem.
	Logs(ctx context.Context, pod *corev1.Pod, container string, o *corev1.PodLogOptions, w io.Writer) error
	Exec(ctx context.Context, pod *corev1.Pod, container string, command []string, s Streams) error
	Attach(ctx context.Context, pod *corev1.Pod, container string, s Streams) error
	// Forward connects a stream with a port of a pod.
	Forward(ctx context.Context, pod *corev1.Pod, port int32, stream io.ReadWriteCloser) error
	// Healthy returns nil if the node works.
	Healthy(ctx context.Context) error
}

// Streams are the input and output of a command or a container.
type Streams struct {
	In       io.Reader
	Out, Err io.WriteCloser
	TTY      bool
	Resize   <-chan remotecommand.TerminalSize
}

// Problem is an error with an HTTP status.
type Problem struct {
	Status  int
	Message string
}

// Error implements error.
func (p *Problem) Error() string { return p.Message }

// Options configure a Server. Node, Certificate and Clients are required.
type Options struct {
	Node Node
	// Listener accepts the connections. The Server closes it.
	Listener    net.Listener
	Certificate tls.Certificate
	// Present returns the certificate for each connection, if it is set. Certificate is not used then.
	Present func() (*tls.Certificate, error)
	// Clients has the CA of client certificates. Names are the common names whose clients may do everything; if empty,
	// all may.
	Clients *x509.CertPool
	Names   []string
	// Reviewer decides about other clients, as Policy says. Nil refuses them.
	Reviewer *Reviewer
	Policy   Policy
	TLS      TLS
	// NoDebugging serves neither logs nor commands nor ports of pods.
	NoDebugging bool
	Logger      *slog.Logger
}

// TLS limits what clients may use. Zero values mean the defaults of Go, and at least TLS 1.2.
type TLS struct {
	MinVersion uint16
	Suites     []uint16
	Curves     []tls.CurveID
}

// Access configures where a node's server listens and which clients it accepts.
type Access struct {
	// Listen is the address. Port 0 means a free port.
	Listen string
	// Certificate is the serving certificate. If empty, a self-signed one is made.
	Certificate tls.Certificate
	// Present returns the certificate for each connection, if it is set. It is for certificates that are replaced while
	// the server runs.
	Present func() (*tls.Certificate, error)
	// Clients has the CA of client certificates. Without it there is no server.
	Clients *x509.CertPool
	// Names are the common names of clients that may do everything. If empty, all may.
	Names  []string
	Policy Policy
	TLS    TLS
	// NoDebugging serves neither logs nor commands nor ports of pods.
	NoDebugging bool
}

// Open opens the port and returns the Server, which asks by a Reviewer about clients that are not on the list of names.
// Without a CA for clients it returns nil.
func (a *Access) Open(node Node, reviewer *Reviewer, hosts []string, log *slog.Logger) (*Server, error) {
	if a.Clients == nil {
		return nil, nil
	}
	certificate := a.Certificate
	if len(certificate.Certificate) == 0 && a.Present == nil {
		var err error
		if certificate, err = selfSigned(hosts); err != nil {
			return nil, fmt.Errorf("make a serving certificate for the node: %w", err)
		}
	}
	listener, err := net.Listen("tcp", a.Listen)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s for the API server: %w", a.Listen, err)
	}
	return New(Options{
		Node: node, Listener: listener, Certificate: certificate, Present: a.Present, Clients: a.Clients, Names: a.Names,
		Reviewer: reviewer, Policy: a.Policy, TLS: a.TLS, NoDebugging: a.NoDebugging, Logger: log,
	}), nil
}

// Server serves the API server's requests. It is a loop.Runner.
type Server struct {
	Options
	mux     *http.ServeMux
	reviews *reviews
}

// grace is how long running requests may take when the server stops.
const grace = time.Second

// New returns a Server. Run starts it.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{Options: o, mux: http.NewServeMux()}
	if o.Reviewer != nil {
		s.reviews = newReviews(*o.Reviewer, o.Policy)
	}
	s.route()
	return s
}

func (s *Server) route() {
	s.mux.HandleFunc("GET /healthz", s.healthz)
	s.mux.HandleFunc("GET /healthz/ping", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	for _, route := range []struct {
		pattern string
		handle  http.HandlerFunc
	}{
		{"/pods", s.pods},
		{"GET /containerLogs/{namespace}/{pod}/{container}", s.onPod(s.logs)},
		{"/exec/{namespace}/{pod}/{container}", s.onPod(s.exec)},
		{"/exec/{namespace}/{pod}/{uid}/{container}", s.onPod(s.exec)},
		// GET is missing on purpose: a user with read access to nodes/proxy must not run commands.
		{"POST /run/{namespace}/{pod}/{container}", s.onPod(s.run)},
		{"POST /run/{namespace}/{pod}/{uid}/{container}", s.onPod(s.run)},
		{"/attach/{namespace}/{pod}/{container}", s.onPod(s.attach)},
		{"/attach/{namespace}/{pod}/{uid}/{container}", s.onPod(s.attach)},
		{"/portForward/{namespace}/{pod}", s.onPod(s.forward)},
		{"/portForward/{namespace}/{pod}/{uid}", s.onPod(s.forward)},
	} {
		if s.NoDebugging && route.pattern != "/pods" {
			route.handle = func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "Debug endpoints are disabled.", http.StatusMethodNotAllowed)
			}
		}
		s.mux.Handle(route.pattern, s.guard(route.handle))
	}
	if more, ok := s.Node.(interface {
		Routes() map[string]http.HandlerFunc
	}); ok { // optional handlers of the node
		for pattern, handle := range more.Routes() {
			s.mux.Handle(pattern, s.guard(handle))
		}
	}
}

// guard rejects clients that are not the API server, unless that says that they may do what they ask for.
func (s *Server) guard(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if problem := s.check(r); problem != nil {
			http.Error(w, problem.Message, problem.Status)
			return
		}
		next(w, r.WithContext(klog.NewContext(r.Context(), silent)))
	})
}

// check returns why a client must not do what it asks for, or nil.
func (s *Server) check(r *http.Request) *Problem {
	if name, ok := certified(r); ok && (len(s.Names) == 0 || slices.Contains(s.Names, name)) {
		return nil
	}
	u, err := s.user(r)
	switch {
	case err != nil:
		if !errors.Is(err, errUnauthorized) {
			s.Logger.Warn("the API server does not say whose token it is", "error", err)
		}
		return &Problem{http.StatusUnauthorized, "Unauthorized"}
	case s.Policy.AllowAll:
		return nil
	case s.reviews == nil:
		return &Problem{http.StatusForbidden, fmt.Sprintf("Forbidden (user=%s)", u.Username)}
	}
	verb, subresources := verbOf(r), subresourcesOf(r.URL.Path)
	for _, one := range subresources {
		allowed, err := s.reviews.allows(r, u, verb, one)
		switch {
		case err != nil:
			s.Logger.Warn("the API server does not say whether a client of the node is allowed", "user", u.Username, "error", err)
			return &Problem{http.StatusInternalServerError, fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=nodes, subresource=%s)", u.Username, verb, one)}
		case allowed:
			return nil
		}
	}
	return &Problem{http.StatusForbidden, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)", u.Username, verb, subresources)}
}

// silent discards the log of the streaming library, which logs every end of a stream as an error. Clients get these
// errors anyway.
var silent klog.Logger

// Port returns the port of the server.
func (s *Server) Port() int32 {
	if a, ok := s.Listener.Addr().(*net.TCPAddr); ok {
		return int32(a.Port)
	}
	return 0
}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler: s.mux, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 4 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(s.Logger.Handler(), slog.LevelDebug),
		TLSConfig: &tls.Config{
			GetCertificate: s.certificate, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: s.Clients,
			NextProtos: []string{"http/1.1"}, // streams need upgraded connections, which HTTP/2 does not have
			MinVersion: cmp.Or(s.TLS.MinVersion, tls.VersionTLS12), CipherSuites: s.TLS.Suites, CurvePreferences: s.TLS.Curves,
		},
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(s.Listener, "", "") }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	limit, stop := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer stop()
	if server.Shutdown(limit) != nil {
		server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// certificate returns the current certificate.
func (s *Server) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if s.Present != nil {
		return s.Present()
	}
	return &s.Certificate, nil
}

func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	if err := s.Node.Healthy(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprint(w, "ok")
}
