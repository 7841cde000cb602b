package h2

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/crew"
)

// Options say how connections are served. The zero value is good.
type Options struct {
	// MaxStreams is how many requests an authenticated client may have open on a connection: 250 by default. Others may have 100, or
	// MaxStreams if that is less.
	MaxStreams uint32
	// MaxHeader bounds the head of a request, in bytes as HTTP/2 counts them: 1 MiB by default.
	MaxHeader uint32
	// PrefaceTimeout is how long a client may take to send the connection preface: 10 s by default.
	PrefaceTimeout time.Duration
	// IdleTimeout is how long a connection without a request stays open: 3 minutes by default.
	IdleTimeout time.Duration
	// WriteTimeout is how long a client may read nothing while something is to be sent, 30 s by default. It is noticed after twice that
	// time at the latest.
	WriteTimeout time.Duration
	// Logger gets the panics of handlers; nil discards them.
	Logger *slog.Logger
}

// Server serves connections. It is to be made with New.
type Server struct {
	o    Options
	crew crew.Crew

	mu       sync.Mutex
	conns    map[*conn]struct{} // guarded by mu
	draining bool               // guarded by mu
	serving  sync.WaitGroup     // connections; added to under mu, and not when draining
}

// New makes a server.
func New(o Options) *Server {
	o.MaxStreams = cmp.Or(o.MaxStreams, 250)
	o.MaxHeader = cmp.Or(o.MaxHeader, 1<<20)
	o.PrefaceTimeout = cmp.Or(o.PrefaceTimeout, 10*time.Second)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 3*time.Minute)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{o: o, conns: map[*conn]struct{}{}}
}

// Serve makes a server of net/http leave HTTP/2 to this one. It is to be called before that server serves.
func (s *Server) Serve(web *http.Server) {
	web.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": s.serve}
	web.RegisterOnShutdown(s.Drain)
}

// serve serves one connection, and returns when it has ended.
func (s *Server) serve(_ *http.Server, secure *tls.Conn, handler http.Handler) {
	c := newConn(s, secure, handler)
	s.mu.Lock()
	if s.draining {
		s.mu.Unlock()
		c.reject()
		return
	}
	s.conns[c] = struct{}{}
	s.serving.Add(1)
	s.mu.Unlock()
	defer s.serving.Done()
	c.serve()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Drain lets the requests end that are under way, closes connections that have none, and takes no new ones.
func (s *Server) Drain() {
	for _, c := range s.leave() {
		c.drain()
	}
}

// Close ends all connections at once, and returns when nothing is running any more.
func (s *Server) Close() {
	for _, c := range s.leave() {
		c.net.NetConn().Close()
	}
	s.Wait()
}

// Wait returns when all connections have ended, after Drain or after the http.Server was closed.
func (s *Server) Wait() {
	s.leave()
	s.serving.Wait()
	s.crew.Close()
}

// leave takes no more connections, and returns those that there are.
func (s *Server) leave() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	return conns
}
