// Package testapi is an API server that is small enough for a test: it keeps
// objects of any registered kind in memory and answers client-go's real clients
// over a transport that is a function call.
//
// What it keeps true, because control loops depend on it: one sequence of
// versions for everything; optimistic concurrency; a write that changes nothing is
// no write; status and spec are written apart; finalizers, graceful deletion of bound
// pods, and propagation policies; lists and watches that fit together. What it
// leaves out: defaults, validation, admission beyond terminating namespaces.
//
// It runs no goroutine, so it can be used inside a synctest bubble.
package testapi

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/loop"
)

// A Kind is a kind of object that the server knows.
type Kind struct {
	schema.GroupVersionKind
	Resource   string
	Namespaced bool
}

func (k Kind) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Resource}
}

type objectKey struct {
	resource  schema.GroupResource
	namespace string
	name      string
}

// A change is one entry of the log. gone is set for a deletion.
type change struct {
	key    objectKey
	before *unstructured.Unstructured // nil: created
	object *unstructured.Unstructured
	gone   bool
	at     uint64
}

// Server is the API server.
type Server struct {
	mu      sync.Mutex // guards what follows
	before  func(*http.Request) error
	after   func(*http.Request) error
	kinds   []Kind
	objects map[objectKey]*unstructured.Unstructured
	log     []change
	version uint64
	oldest  uint64 // versions before it have been compacted
	names   int
	watches int           // raised to end all open watches
	held    bool          // watches show nothing new
	moved   chan struct{} // closed when any of the above changed
	random  *rand.Rand
}

// New returns a server that knows the given kinds, or the usual ones if there
// are none.
func New(kinds ...Kind) *Server {
	if len(kinds) == 0 {
		kinds = Usual
	}
	return &Server{
		kinds:   slices.Clone(kinds),
		objects: map[objectKey]*unstructured.Unstructured{},
		version: 1,
		moved:   make(chan struct{}),
		random:  rand.New(rand.NewPCG(1, 2)),
	}
}

// Register adds a kind while the server runs, as a custom resource definition would.
func (s *Server) Register(kind Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kinds = append(s.kinds, kind)
}

// Clients are client-go's clients of this server.
func (s *Server) Clients() *loop.Clients { return clientsOver(s) }

func clientsOver(transport http.RoundTripper) *loop.Clients {
	config := &rest.Config{Host: "http://test", Transport: transport, QPS: -1}
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	c := loop.ClientsFor(kubernetes.NewForConfigOrDie(config))
	c.Dynamic = dynamic.NewForConfigOrDie(config)
	c.Metadata = metadata.NewForConfigOrDie(config)
	return c
}

// Intercept injects faults: before is asked before a request is served, and an
// error means that it never arrived; after is asked when it was, and an error means
// that the answer was lost. Either may be nil.
func (s *Server) Intercept(before, after func(*http.Request) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

func (s *Server) interceptors() (before, after func(*http.Request) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.before, s.after
}

// DropWatches ends all open watches.
func (s *Server) DropWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches++
	s.wakeLocked()
}

// HoldWatches makes all watches show nothing new until it is called with false.
func (s *Server) HoldWatches(held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = held
	s.wakeLocked()
}

// Compact forgets the log: who is behind must list again.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oldest, s.log = s.version, nil
	s.watches++
	s.wakeLocked()
}

// Version is the version of the last write.
func (s *Server) Version() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

func (s *Server) wakeLocked() {
	close(s.moved)
	s.moved = make(chan struct{})
}

// Moved is closed with the next write.
func (s *Server) Moved() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moved
}

// putLocked stores an object under a new version.
func (s *Server) putLocked(key objectKey, object *unstructured.Unstructured) {
	before := s.objects[key]
	s.version++
	object.SetResourceVersion(strconv.FormatUint(s.version, 10))
	s.objects[key] = object
	s.log = append(s.log, change{key: key, before: before, object: object, at: s.version})
	s.wakeLocked()
}

func (s *Server) removeLocked(key objectKey) *unstructured.Unstructured {
	before := s.objects[key]
	delete(s.objects, key)
	s.version++
	last := before.DeepCopy()
	last.SetResourceVersion(strconv.FormatUint(s.version, 10))
	s.log = append(s.log, change{key: key, before: before, object: last, gone: true, at: s.version})
	s.wakeLocked()
	return last
}

func (s *Server) freshUID() types.UID {
	return types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", s.random.Uint32(), s.version))
}

func (s *Server) now() string { return time.Now().UTC().Format(time.RFC3339) }

// selectLocked returns the objects of a kind, ordered by key.
func (s *Server) selectLocked(resource schema.GroupResource, match func(*unstructured.Unstructured) bool) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for key, object := range s.objects {
		if key.resource == resource && match(object) {
			out = append(out, object)
		}
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int {
		return slices.Compare([]string{a.GetNamespace(), a.GetName()}, []string{b.GetNamespace(), b.GetName()})
	})
	return out
}

// All decodes the objects of a resource, such as "pods", into a Go type.
func All[T any](s *Server, resource string) []*T {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*T
	for key, object := range maps.All(s.objects) {
		if key.resource.Resource != resource {
			continue
		}
		typed := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
			panic(err)
		}
		out = append(out, typed)
	}
	return out
}
