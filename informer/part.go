package informer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/informer/internal/state"
	"github.com/millrace/millrace/watch"
)

// part is the part of a cache that one list and watch maintains: the whole cache, or one namespace of it.
type part struct {
	namespace string
	divided   bool // there are other parts

	position  string // guarded by the informer's mu: the resource version that this part of the table shows
	lastError error  // guarded by the informer's mu
}

// ForNamespaces makes a source of several namespaces. A Shared informer keeps them in one cache, with a list and watch
// for each:
//
//	informer.ForNamespaces(clientset.CoreV1().Pods, "blue", "green")
//
// It needs no permission to read other namespaces. Until the informer has synced, reads may find only some of the
// namespaces. Without arguments it is a source of all namespaces.
func ForNamespaces[T Object, L runtime.Object, C Client[T, L]](client func(namespace string) C, namespaces ...string) Source[T] {
	namespaces = slices.Compact(slices.Sorted(slices.Values(namespaces)))
	if len(namespaces) == 0 || slices.Contains(namespaces, metav1.NamespaceAll) {
		return For[T, L](client(metav1.NamespaceAll))
	}
	s := &namespaced[T]{}
	for _, namespace := range namespaces {
		s.parts = append(s.parts, namespacePart[T]{namespace: namespace, source: For[T, L](client(namespace))})
	}
	return s
}

// namespaced is a source that consists of one source for each namespace.
type namespaced[T Object] struct {
	parts []namespacePart[T]
}

type namespacePart[T Object] struct {
	namespace string
	source    Source[T]
}

var errDivided = errors.New("a source of several namespaces has no list and watch of its own")

// List implements Source for callers that do not use the parts; it returns an error.
func (s *namespaced[T]) List(context.Context, metav1.ListOptions) ([]T, metav1.ListMeta, error) {
	return nil, metav1.ListMeta{}, errDivided
}

// Watch implements Source for callers that do not use the parts; it returns an error.
func (s *namespaced[T]) Watch(context.Context, metav1.ListOptions) (watch.Stream[T], error) {
	return nil, errDivided
}

// identity implements identified.
func (s *namespaced[T]) identity() (server any, scope string, known bool) {
	scopes := make([]string, len(s.parts))
	for i, p := range s.parts {
		if server, scopes[i], known = identityOf(p.source); !known {
			return nil, "", false
		}
	}
	return server, strings.Join(scopes, ","), true
}

// partsOf returns a source's parts: most sources have only one.
func partsOf[T Object](source Source[T]) []namespacePart[T] {
	if divided, ok := source.(*namespaced[T]); ok {
		return divided.parts
	}
	return []namespacePart[T]{{source: source}}
}

// addPart adds a reflector that fills one part of the informer's cache.
func addPart[I item, T any](s *Shared[T], namespace string, source Source[I], admit func(I) (*state.Version[T], error)) {
	p := &part{namespace: namespace, divided: namespace != ""}
	s.parts = append(s.parts, p)
	r := newReflector(s.options.settings(s.log), source, &cacheSink[I, T]{shared: s, part: p, admit: admit}, func(err error) { s.failed(p, err) })
	s.followers = append(s.followers, r.run)
}

// follow keeps all parts up to date.
func (s *Shared[T]) follow(ctx context.Context) error {
	errs := make([]error, len(s.followers))
	var running sync.WaitGroup
	for i, run := range s.followers {
		running.Go(func() { errs[i] = run(ctx) })
	}
	running.Wait()
	return errors.Join(errs...)
}

// reachedLocked records the position of a part. The informer's position is that of the part that is furthest behind.
func (s *Shared[T]) reachedLocked(p *part, position string) {
	p.position = position
	if !p.divided {
		s.position = position
		return
	}
	s.recent.add(state.ParseRevision(position))
	behind := p.position
	for _, other := range s.parts {
		if state.ParseRevision(other.position) < state.ParseRevision(behind) {
			behind = other.position
		}
	}
	s.position = behind
}

// shows reports whether reads show a version of the collection. In a namespace without changes only bookmarks move the
// position. But a version that one namespace has received is the version of a write in that namespace, and the others
// have nothing to wait for.
func (s *Shared[T]) shows(wanted uint64) (position string, reached bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.position, state.ParseRevision(s.position) >= wanted || s.recent.has(wanted)
}

// troublesLocked returns the last errors of all parts.
func (s *Shared[T]) troublesLocked() error {
	var errs []error
	for _, p := range s.parts {
		switch {
		case p.lastError == nil:
		case p.divided:
			errs = append(errs, fmt.Errorf("namespace %s: %w", p.namespace, p.lastError))
		default:
			errs = append(errs, p.lastError)
		}
	}
	return errors.Join(errs...)
}

// recentRevisions are the resource versions that were received last.
type recentRevisions struct {
	versions []uint64
	next     int
}

const maxRecent = 1024

func (r *recentRevisions) add(version uint64) {
	if len(r.versions) < maxRecent {
		r.versions = append(r.versions, version)
		return
	}
	r.versions[r.next] = version
	r.next = (r.next + 1) % maxRecent
}

func (r *recentRevisions) has(version uint64) bool { return slices.Contains(r.versions, version) }
