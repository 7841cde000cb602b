// Package looptest runs control loops with a real API server, in virtual time, and injects faults between them.
//
// A test starts a testing/synctest bubble and, in it, an API server in memory (millracetest.API). [New] puts a [Server]
// in front of it, through which the loops reach the API. It can lose requests and answers, and cut, delay or expire
// watches. The test itself, [All], [Edit] and [Nodes] reach the API directly.
//
// [StartLives] runs loops that crash at any of their writes.
package looptest

import (
	"net/http"
	"strconv"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/loop"
)

// Server is an API server with injected faults.
type Server struct {
	t       testing.TB
	config  *rest.Config
	dynamic dynamic.Interface

	// Kube reaches the API without faults.
	Kube kubernetes.Interface

	mu      sync.Mutex // guards what follows
	moved   *sync.Cond // on mu: held or the set of watches has changed
	before  func(*http.Request) error
	after   func(*http.Request) error
	hidden  string // an API group that discovery hides
	held    bool   // watches deliver nothing
	behind  string // watches of this resource deliver nothing
	oldest  uint64 // watches from an older revision are refused
	watches map[*stream]bool
}

// New returns a Server for the API server of config.
func New(t testing.TB, config *rest.Config) *Server {
	t.Helper()
	s := &Server{t: t, config: config, watches: map[*stream]bool{}}
	s.moved = sync.NewCond(&s.mu)
	var err error
	if s.Kube, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if s.dynamic, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	return s
}

// Clients returns clients whose requests go through the Server.
func (s *Server) Clients() *loop.Clients { return s.clientsOver(s) }

func (s *Server) clientsOver(transport http.RoundTripper) *loop.Clients {
	config := rest.CopyConfig(s.config)
	config.Transport = transport
	c, err := loop.NewClients(config, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// Intercept injects faults: before is called before a request is served, and an error means that it never arrived.
// after is called when it was served, and an error means that the answer was lost. Either may be nil.
func (s *Server) Intercept(before, after func(*http.Request) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

// Hide hides an API group from discovery. The empty group hides nothing.
func (s *Server) Hide(group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = group
}

// DropWatches ends all open watches.
func (s *Server) DropWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked()
}

func (s *Server) dropLocked() {
	for w := range s.watches {
		w.dropped = true
		w.cancel()
	}
	s.moved.Broadcast()
}

// HoldWatches blocks all watches until it is called with false.
func (s *Server) HoldWatches(held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = held
	s.moved.Broadcast()
}

// HoldWatchesOf blocks the watches of a resource: caches of it fall behind those of others. The empty resource releases
// them.
func (s *Server) HoldWatchesOf(resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behind = resource
	s.moved.Broadcast()
}

// Compact expires older revisions: clients that are behind must list again.
func (s *Server) Compact() {
	now := s.Revision()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oldest = now
	s.dropLocked()
}

// Revision returns the revision of the last write.
func (s *Server) Revision() uint64 {
	list, err := s.Kube.CoreV1().Namespaces().List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	revision, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return revision
}
