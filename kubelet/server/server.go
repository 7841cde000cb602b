package server

import (
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

// Node is what a Server tells of.
type Node interface {
	// Pod is a pod of the node, Pods are all of them.
	Pod(namespace, name string) (*corev1.Pod, bool)
	Pods() []*corev1.Pod
	// Logs writes a container's log. Errors before the first byte are answers of their own; see Problem.
	Logs(ctx context.Context, pod *corev1.Pod, container string, o *corev1.PodLogOptions, w io.Writer) error
	Exec(ctx context.Context, pod *corev1.Pod, container string, command []string, s Streams) error
	Attach(ctx context.Context, pod *corev1.Pod, container string, s Streams) error
	// Forward connects a stream with a port of a pod.
	Forward(ctx context.Context, pod *corev1.Pod, port int32, stream io.ReadWriteCloser) error
	// Healthy is nil if the node works.
	Healthy(ctx context.Context) error
}

// Streams are those of a command or a container.
type Streams struct {
	In       io.Reader
	Out, Err io.WriteCloser
	TTY      bool
	Resize   <-chan remotecommand.TerminalSize
}

// Problem is an error with a status of HTTP.
type Problem struct {
	Status  int
	Message string
}

// Error implements error.
func (p *Problem) Error() string { return p.Message }

// Options say where a Server listens and to whom. Node, Certificate and Clients are needed.
type Options struct {
	Node Node
	// Listener is where requests come from. The Server closes it.
	Listener    net.Listener
	Certificate tls.Certificate
	// Present, if set, is asked for the certificate with each connection, instead of Certificate.
	Present func() (*tls.Certificate, error)
	// Clients signs the certificates of those who may call, and Names are the common names that they may have. Without
	// names every certificate of that authority will do.
	Clients *x509.CertPool
	Names   []string
	Logger  *slog.Logger
}

// Access says where a node's server listens and to whom.
type Access struct {
	// Listen is an address. Port 0 takes a free one.
	Listen string
	// Certificate is shown to callers. Without one it is made, and signed by itself.
	Certificate tls.Certificate
	// Present, if set, is asked for the certificate with each connection, instead of Certificate: one that is exchanged while the server runs.
	Present func() (*tls.Certificate, error)
	// Clients signs the certificates of those who may call. Without it there is no server.
	Clients *x509.CertPool
	// Names are the common names that callers may have. None means any of that authority.
	Names []string
}

// Open takes the port, and makes the Server that answers there. Without an authority for callers it is nil.
func (a *Access) Open(node Node, hosts []string, log *slog.Logger) (*Server, error) {
	if a.Clients == nil {
		return nil, nil
	}
	certificate := a.Certificate
	if len(certificate.Certificate) == 0 && a.Present == nil {
		var err error
		if certificate, err = selfSigned(hosts); err != nil {
			return nil, fmt.Errorf("make a certificate for the node's server: %w", err)
		}
	}
	listener, err := net.Listen("tcp", a.Listen)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s for the API server: %w", a.Listen, err)
	}
	return New(Options{Node: node, Listener: listener, Certificate: certificate, Present: a.Present, Clients: a.Clients, Names: a.Names, Logger: log}), nil
}

// Server answers the API server. It is a loop.Runner.
type Server struct {
	Options
	mux *http.ServeMux
}

// grace is how long requests may take to end.
const grace = time.Second

// New makes a Server.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{Options: o, mux: http.NewServeMux()}
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
		// A user who may only get through the proxy of a node must not run commands by that.
		{"POST /run/{namespace}/{pod}/{container}", s.onPod(s.run)},
		{"POST /run/{namespace}/{pod}/{uid}/{container}", s.onPod(s.run)},
		{"/attach/{namespace}/{pod}/{container}", s.onPod(s.attach)},
		{"/attach/{namespace}/{pod}/{uid}/{container}", s.onPod(s.attach)},
		{"/portForward/{namespace}/{pod}", s.onPod(s.forward)},
		{"/portForward/{namespace}/{pod}/{uid}", s.onPod(s.forward)},
	} {
		s.mux.Handle(route.pattern, s.guard(route.handle))
	}
	if more, ok := s.Node.(interface {
		Routes() map[string]http.HandlerFunc
	}); ok { // what only some nodes tell of
		for pattern, handle := range more.Routes() {
			s.mux.Handle(pattern, s.guard(handle))
		}
	}
}

// guard lets only those pass who may call.
func (s *Server) guard(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		name := r.TLS.PeerCertificates[0].Subject.CommonName
		if len(s.Names) > 0 && !slices.Contains(s.Names, name) {
			http.Error(w, fmt.Sprintf("Forbidden (user=%s)", name), http.StatusForbidden)
			return
		}
		next(w, r.WithContext(klog.NewContext(r.Context(), silent)))
	})
}

// silent is for the streaming library, to which every end of a stream is an error. Callers are told; nobody else needs to be.
var silent klog.Logger

// Port is where the server listens.
func (s *Server) Port() int32 {
	if a, ok := s.Listener.Addr().(*net.TCPAddr); ok {
		return int32(a.Port)
	}
	return 0
}

// Run answers until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler: s.mux, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 4 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(s.Logger.Handler(), slog.LevelDebug),
		TLSConfig: &tls.Config{
			GetCertificate: s.certificate, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: s.Clients,
			NextProtos: []string{"http/1.1"}, // streams are upgraded connections, which HTTP/2 has not
			MinVersion: tls.VersionTLS12,
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

// certificate is the present one.
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
