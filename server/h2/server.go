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
	// MaxStreams is how many requests of one connection may be open at the same time: 250 by default.
	MaxStreams uint32
	// MaxHeader bounds the head of a request, in bytes as HTTP/2 counts them: 1 MiB by default.
	MaxHeader uint32
	// Greeting is how long a client may take to begin, 10 s by default; Idle how long a connection without a request
	// stays open, 3 minutes by default.
	Greeting, Idle time.Duration
	// Stall is how long a client may read nothing while something is to be sent, 30 s by default. It is noticed after twice
	// that time at the latest.
	Stall time.Duration
	// Logger hears of handlers that panic; nil means nobody does.
	Logger *slog.Logger
}

// Server serves connections. It is to be made with New.
type Server struct {
	o    Options
	crew crew.Crew

	mu      sync.Mutex
	conns   map[*conn]struct{} // guarded by mu
	leaving bool               // guarded by mu
	serving sync.WaitGroup     // connections; added to under mu, and not when leaving
}

// New makes a server.
func New(o Options) *Server {
	o.MaxStreams = cmp.Or(o.MaxStreams, 250)
	o.MaxHeader = cmp.Or(o.MaxHeader, 1<<20)
	o.Greeting = cmp.Or(o.Greeting, 10*time.Second)
	o.Idle = cmp.Or(o.Idle, 3*time.Minute)
	o.Stall = cmp.Or(o.Stall, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{o: o, conns: map[*conn]struct{}{}}
}

// Serve makes a server of net/http leave HTTP/2 to this one. It is to be called before that server serves.
func (s *Server) Serve(web *http.Server) {
	web.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": s.serve}
	web.RegisterOnShutdown(s.Leave)
}

// serve serves one connection, and returns when it has ended.
func (s *Server) serve(_ *http.Server, secure *tls.Conn, handler http.Handler) {
	c := newConn(s, secure, handler)
	s.mu.Lock()
	if s.leaving {
		s.mu.Unlock()
		c.decline()
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

// Leave lets the requests end that are under way, closes connections that have none, and takes no new ones.
func (s *Server) Leave() {
	for _, c := range s.leave() {
		c.leave()
	}
}

// Close ends all connections at once, and returns when nothing is running any more.
func (s *Server) Close() {
	for _, c := range s.leave() {
		c.net.NetConn().Close()
	}
	s.Wait()
}

// Wait returns when all connections have ended, after Leave or after the http.Server was closed.
func (s *Server) Wait() {
	s.leave()
	s.serving.Wait()
	s.crew.Close()
}

// leave takes no more connections, and returns those that there are.
func (s *Server) leave() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = true
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	return conns
}
