package follow

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// ValueOptions say what a value is made of. Registry, Kinds and Make are required.
type ValueOptions[V any] struct {
	Registry *registry.Registry
	// Kinds are few kinds with few objects: Make is given all of them after a change of one.
	Kinds []schema.GroupResource
	// Shared says that other servers write to the store.
	Shared bool
	// Besides returns a channel that is closed when something else changes that Make looks at. It is called before
	// Make; nil means that there is nothing else.
	Besides func() <-chan struct{}
	// Make compiles the objects, which are in the order of the kinds and of their names. An object that has not changed
	// is the same as the last time; none may be changed.
	Make func(objects []resource.Object) V
}

// Value is what is compiled from objects. Any number of goroutines may use it.
type Value[V any] struct {
	o   ValueOptions[V]
	now atomic.Pointer[made[V]]

	mu      sync.Mutex // guards what follows, and is held while a new value is made
	stream  *Stream
	objects map[schema.GroupResource]map[string]resource.Object // by their keys
	closed  bool
}

// made is what was compiled. It holds until one of the channels is closed.
type made[V any] struct {
	value   V
	changes []<-chan struct{}
}

// NewValue makes a value, which reads nothing before it is asked for. Close lets go of what it follows.
func NewValue[V any](o ValueOptions[V]) *Value[V] {
	v := &Value[V]{o: o}
	v.stream = NewStream(StreamOptions{
		Registry: o.Registry, Kinds: o.Kinds, Freshness: registry.Freshness{Any: true},
		Begin: v.forgetLocked, Receive: v.receiveLocked,
	})
	return v
}

// Now is the present value.
func (v *Value[V]) Now(ctx context.Context) (V, error) {
	if err := v.await(ctx); err != nil {
		var none V
		return none, err
	}
	if m := v.now.Load(); m != nil && !m.changed() {
		return m.value, nil
	}
	return v.renew(ctx)
}

func (m *made[V]) changed() bool {
	for _, c := range m.changes {
		select {
		case <-c:
			return true
		default:
		}
	}
	return false
}

// await waits until the cache shows all that has been acknowledged.
func (v *Value[V]) await(ctx context.Context) error {
	cache := v.o.Registry.Cache
	if v.o.Shared {
		_, err := cache.Fresh(ctx)
		return err
	}
	wrote, err := v.stream.Wrote()
	if err != nil || wrote <= cache.Revision() {
		return err
	}
	return cache.WaitFor(ctx, wrote)
}

// renew takes in what has changed, and compiles the objects again.
func (v *Value[V]) renew(ctx context.Context) (V, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var none V
	if m := v.now.Load(); m != nil && !m.changed() {
		return m.value, nil // somebody else was here before
	}
	if v.closed {
		return none, fmt.Errorf("%v are not followed any more", v.o.Kinds)
	}
	m := &made[V]{}
	if v.o.Besides != nil {
		m.changes = append(m.changes, v.o.Besides())
	}
	if err := v.stream.CatchUp(ctx); err != nil {
		v.now.Store(nil)
		return none, err
	}
	m.changes = append(m.changes, v.stream.Wakes()...)
	m.value = v.o.Make(v.sortedLocked())
	v.now.Store(m)
	return m.value, nil
}

// forgetLocked decodes everything again: the same revision may stand for another object now.
func (v *Value[V]) forgetLocked() { v.objects = map[schema.GroupResource]map[string]resource.Object{} }

func (v *Value[V]) receiveLocked(ctx context.Context, kind *resource.Kind, e registry.Event) error {
	of := kind.GroupResource()
	if e.Type == watch.Deleted {
		delete(v.objects[of], e.Object.Key)
		return nil
	}
	decoded, err := kind.Decode(ctx, e.Object.Value(), e.Object.Revision.String())
	if err != nil {
		return err
	}
	if v.objects[of] == nil {
		v.objects[of] = map[string]resource.Object{}
	}
	v.objects[of][e.Object.Key] = decoded
	return nil
}

func (v *Value[V]) sortedLocked() (all []resource.Object) {
	for _, of := range v.o.Kinds {
		for _, key := range slices.Sorted(maps.Keys(v.objects[of])) {
			all = append(all, v.objects[of][key])
		}
	}
	return all
}

// Close lets go of what is followed.
func (v *Value[V]) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	v.stream.Close()
	v.now.Store(nil)
}
