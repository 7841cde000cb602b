package h2

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/workers"
)

// Options configures a server. The zero value is usable.
type Options struct {
	// MaxStreams is how many requests an authenticated client may have open on a connection: 250 by default. An
	// unauthenticated client may have 100, or MaxStreams if that is less.
	MaxStreams uint32
	// MaxHeader bounds the head of a request, in bytes as HTTP/2 counts them: 1 MiB by default.
	MaxHeader uint32
	// PrefaceTimeout is how long a client may take to send the connection preface: 10 s by default.
	PrefaceTimeout time.Duration
	// IdleTimeout is how long a connection without a request stays open: 3 minutes by default.
	IdleTimeout time.Duration
	// WriteTimeout is how long a client may read nothing while the server has something to send: 30 s by default. The
	// connection ends after at most twice that time.
	WriteTimeout time.Duration
	// Logger receives the panics of handlers; nil discards them.
	Logger *slog.Logger
}

// Server serves connections. Make it with New.
type Server struct {
	o       Options
	workers workers.Pool

	mu       sync.Mutex
	conns    map[*conn]struct{} // guarded by mu
	draining bool               // guarded by mu
	leaving  chan struct{}      // closed when draining is set
	serving  sync.WaitGroup     // counts connections; Add is called under mu, and not once draining is set
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
	return &Server{o: o, conns: map[*conn]struct{}{}, leaving: make(chan struct{})}
}

// Serve makes an http.Server pass its HTTP/2 connections to s. Call it before that server serves.
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

// Drain refuses new requests, lets open ones finish, and closes connections without any.
func (s *Server) Drain() {
	for _, c := range s.leave() {
		c.drain()
	}
}

// Close ends all connections at once, and waits until no goroutine of them is running.
func (s *Server) Close() {
	for _, c := range s.leave() {
		c.net.NetConn().Close()
	}
	s.Wait()
}

// Wait waits until all connections have ended, after Drain or after the http.Server was closed.
func (s *Server) Wait() {
	s.leave()
	s.serving.Wait()
	s.workers.Close()
}

// leave refuses new connections, and returns the existing ones.
func (s *Server) leave() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.draining {
		s.draining = true
		close(s.leaving)
	}
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	return conns
}
