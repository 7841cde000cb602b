// Package follow keeps what is compiled from a few kinds of objects in step with the log.
//
// What is guaranteed: what Now returns is made of a state that has every change that this server had acknowledged
// before the call and, if the store is shared, every change that any server had acknowledged. As long as nothing
// changes, Now takes no lock, decodes nothing, and costs some tens of nanoseconds; with a shared store also a question
// to it, which callers share. What is returned never changes.
package follow

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
)

// Options say what is followed.
type Options[S any] struct {
	Registry *registry.Registry
	// Kinds are few kinds with few objects: all of them are read again after a change.
	Kinds []schema.GroupResource
	// Shared says that other servers write to the store.
	Shared bool
	// Besides returns a channel that is closed when something else changes that Make looks at. It is called before
	// Make; nil means that there is nothing else.
	Besides func() <-chan struct{}
	// Make compiles the objects, which are in the order of the kinds and of their names. An object that has not changed
	// is the same as the last time; none may be changed.
	Make func(objects []resource.Object) S
}

// Index is what is compiled from objects.
type Index[S any] struct {
	o   Options[S]
	now atomic.Pointer[state[S]]

	storages atomic.Pointer[[]*registry.Storage]

	mu      sync.Mutex // guards what follows, and is held while a new state is made
	watches []*registry.Watcher
	decoded map[string]decoded
	closed  bool
}

// state is what was compiled. It holds until one of the channels is closed.
type state[S any] struct {
	made    S
	changes []<-chan struct{}
}

// decoded is an object of a revision.
type decoded struct {
	revision store.Revision
	object   resource.Object
}

// New makes an index, which reads nothing before it is asked. Close lets go of what it follows.
func New[S any](o Options[S]) *Index[S] { return &Index[S]{o: o} }

// Now is the present state.
func (x *Index[S]) Now(ctx context.Context) (S, error) {
	var none S
	storages, err := x.kinds()
	if err != nil {
		return none, err
	}
	if err := x.catchUp(ctx, storages); err != nil {
		return none, err
	}
	if s := x.now.Load(); s != nil && !s.changed() {
		return s.made, nil
	}
	return x.renew(ctx, storages)
}

func (s *state[S]) changed() bool {
	for _, c := range s.changes {
		select {
		case <-c:
			return true
		default:
		}
	}
	return false
}

// catchUp waits until the cache shows all that has been acknowledged.
func (x *Index[S]) catchUp(ctx context.Context, storages []*registry.Storage) error {
	cache := x.o.Registry.Cache
	if x.o.Shared {
		_, err := cache.Fresh(ctx)
		return err
	}
	var wrote store.Revision
	for _, s := range storages {
		wrote = max(wrote, s.Wrote())
	}
	if wrote <= cache.Revision() {
		return nil
	}
	return cache.WaitFor(ctx, wrote)
}

func (x *Index[S]) kinds() ([]*registry.Storage, error) {
	if found := x.storages.Load(); found != nil {
		return *found, nil
	}
	r := x.o.Registry
	var out []*registry.Storage
	for _, of := range x.o.Kinds {
		kind, ok := r.Catalogue.Kind(of)
		if !ok {
			return nil, fmt.Errorf("%v are not served", of)
		}
		s, err := r.Storage(kind)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	x.storages.Store(&out)
	return out, nil
}

// renew reads the present objects and compiles them.
func (x *Index[S]) renew(ctx context.Context, storages []*registry.Storage) (S, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.now.Load(); s != nil && !s.changed() {
		return s.made, nil // somebody else was here before
	}
	if x.interruptedLocked() {
		x.decoded = nil // the same revision may stand for another object now
	}
	x.closeLocked()
	if x.closed {
		var none S
		return none, fmt.Errorf("%v are not followed any more", x.o.Kinds)
	}
	s := &state[S]{}
	if x.o.Besides != nil {
		s.changes = append(s.changes, x.o.Besides())
	}
	known := map[string]decoded{}
	var objects []resource.Object
	for _, storage := range storages {
		found, err := x.readLocked(ctx, storage, s, known)
		if err != nil {
			x.closeLocked()
			x.now.Store(nil)
			return s.made, err
		}
		objects = append(objects, found...)
	}
	x.decoded = known
	s.made = x.o.Make(objects)
	x.now.Store(s)
	return s.made, nil
}

// readLocked reads the objects of a kind, and watches it for changes after them.
func (x *Index[S]) readLocked(ctx context.Context, storage *registry.Storage, s *state[S], known map[string]decoded) ([]resource.Object, error) {
	// The watch goes on after the request for which it is begun.
	w, err := storage.Watch(context.WithoutCancel(ctx), registry.WatchQuery{
		Selection: registry.Select(storage.Kind().Faces[0], "", "", nil, nil), Freshness: registry.Freshness{Any: true}, Initial: true,
	})
	if err != nil {
		return nil, err
	}
	x.watches = append(x.watches, w)
	s.changes = append(s.changes, w.Wake())
	var out []resource.Object
	for _, o := range w.Initial {
		d, ok := x.decoded[o.Key]
		if !ok || d.revision != o.Revision {
			made, err := storage.Kind().Decode(ctx, o.Value(), o.Revision.String())
			if err != nil {
				return nil, err
			}
			d = decoded{o.Revision, made}
		}
		known[o.Key] = d
		out = append(out, d.object)
	}
	w.Initial = nil
	return out, nil
}

// interruptedLocked says whether a watch has ended. What happened since is not known: the store may have gone back to
// an older state.
func (x *Index[S]) interruptedLocked() bool {
	for _, w := range x.watches {
		for ok := true; ok; {
			var err error
			if _, ok, err = w.Next(); err != nil {
				return true
			}
		}
	}
	return false
}

func (x *Index[S]) closeLocked() {
	for _, w := range x.watches {
		w.Close()
	}
	x.watches = nil
}

// Close lets go of what is followed.
func (x *Index[S]) Close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	x.closeLocked()
	x.now.Store(nil)
}
