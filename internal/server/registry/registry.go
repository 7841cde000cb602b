// Package registry implements the verbs for any kind: create, get, list, watch, update, delete. It sets and validates
// what all objects have in common, calls the rules of the kind for the rest, and turns each change into one
// compare-and-swap in the store.
//
// Guarantees:
//
//   - A change is validated against the state that it replaces. If the store holds another state by then, the change is
//     made again from that state, or refused as a conflict if the client named a resource version.
//   - Reads without a resource version are linearizable. A read from the watch cache waits until the cache has reached
//     the revision that the store had when the read began.
//   - An answer to a write that wrote nothing, a refusal as well as a success, rests on what the store holds, never on
//     the watch cache alone.
//   - A new object is stored only while what it requires is there, above all its namespace: see Requirement.
//   - Nothing is written if the result equals what is stored; the client gets the current resource version.
//   - Errors are *apierrors.StatusError with Kubernetes' reasons and messages. They are made in this package, not in
//     those below it.
package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Root is the prefix of all keys.
const Root = "/registry/"

// Options are the parts that a registry uses.
type Options struct {
	Store     store.Store
	Cache     *watchcache.Cache
	Catalogue *resource.Catalogue
	// Track maintains metadata.managedFields; nil leaves them as they come.
	Track Tracker
	// Uncached names the group-resources that are served without the watch cache; "*" means all. Those that the server
	// itself follows have it always.
	Uncached map[string]bool
	// Window bounds the history that is kept for a group-resource; zero values are the cache's defaults.
	Window func(groupResource string) (events, bytes int)
	Now    func() time.Time
	Logger *slog.Logger
}

// Tracker records who owns which fields.
type Tracker interface {
	// Track records in obj what manager changed between old and obj; old is nil for a create.
	Track(face *resource.Face, view string, old, obj resource.Object, manager string) error
}

// Registry holds the storages of the kinds of a catalogue. Once it is made, only the registry may change that
// catalogue.
type Registry struct {
	Options
	// Admission are the admission steps, in order. Allocate allocates the values that must be unique, such as addresses
	// and ports. They are made from the registry, so they are set after New, and before the first write.
	Admission []Admission
	Allocate  Allocator

	mu       sync.RWMutex // guards everything below
	objects  map[schema.GroupResource]*objects
	storages map[*resource.Kind]*Storage
	below    map[string]*objects // by what their keys begin with

	// stalledAt is the revision at which the cache was when a read waited for it without success.
	stalledAt atomic.Int64
	// catchingUp has a token for each watch that is served from the store until it has come to the cache's window.
	catchingUp chan struct{}
}

// New makes the storages of all kinds in the catalogue.
func New(o Options) (*Registry, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registry{Options: o, objects: map[schema.GroupResource]*objects{}, storages: map[*resource.Kind]*Storage{}, below: map[string]*objects{}, catchingUp: make(chan struct{}, mostCatchingUp)}
	for _, k := range o.Catalogue.Kinds() {
		if err := r.keep(k.GroupResource(), k); err != nil {
			return nil, err
		}
	}
	o.Cache.OnReplaced(r.forgetWrites)
	return r, nil
}

// Exchange replaces, in one step, the kinds that are served for a group and resource. They share an Identity; without
// kinds the resource is no longer served. Objects, history and watches stay as long as the Identity does, and a watch
// stays as long as the Life of its Kind. If the catalogue refuses, nothing changes.
func (r *Registry) Exchange(gr schema.GroupResource, kinds ...*resource.Kind) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.Catalogue.Check(gr, kinds...); err != nil {
		return err // before the storages of the previous kinds are gone
	}
	if len(kinds) == 0 {
		if err := r.Catalogue.Exchange(gr); err != nil {
			return err
		}
		return r.keepLocked(gr)
	}
	if err := r.keepLocked(gr, kinds...); err != nil {
		return err
	}
	return r.Catalogue.Exchange(gr, kinds...)
}

func (r *Registry) keep(gr schema.GroupResource, kinds ...*resource.Kind) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keepLocked(gr, kinds...)
}

// keepLocked makes the storages of kinds, and forgets those of the previous kinds.
func (r *Registry) keepLocked(gr schema.GroupResource, kinds ...*resource.Kind) error {
	now := r.objects[gr]
	if now != nil && (len(kinds) == 0 || now.identity != kinds[0].Identity) {
		r.forgetLocked(gr)
		now = nil
	}
	if len(kinds) == 0 {
		return nil
	}
	if now == nil {
		now = &objects{registry: r, identity: kinds[0].Identity, prefix: Root + kinds[0].Prefix + "/"}
		now.newest.Store(kinds[0])
		if err := now.cache(kinds[0]); err != nil {
			return err
		}
		r.objects[gr], r.below[now.prefix] = now, now
	}
	now.newest.Store(kinds[0])
	for _, s := range now.storages {
		delete(r.storages, s.kind)
	}
	now.storages = nil
	for _, k := range kinds {
		s := &Storage{objects: now, kind: k}
		now.storages = append(now.storages, s)
		r.storages[k] = s
	}
	return nil
}

func (r *Registry) forgetLocked(gr schema.GroupResource) {
	old := r.objects[gr]
	delete(r.objects, gr)
	delete(r.below, old.prefix)
	for _, s := range old.storages {
		delete(r.storages, s.kind)
	}
	if old.cached != nil {
		r.Cache.Remove(old.cached)
	}
}

// objects is what is stored under an Identity. The Storages of its Kinds share it.
type objects struct {
	registry *Registry
	identity *resource.Identity
	prefix   string
	cached   *watchcache.Kind // nil if the objects are not cached
	recent   recent
	newest   atomic.Pointer[resource.Kind]
	storages []*Storage // guarded by the registry's mutex
	wrote    atomic.Int64
}

// cache adds the objects to the watch cache. Kinds that can only be created, such as reviews, are not cached.
func (o *objects) cache(k *resource.Kind) (err error) {
	r := o.registry
	uncached := r.Uncached["*"] || r.Uncached[k.GroupResource().String()]
	if !k.Offers("list") || uncached && !k.Followed {
		return nil
	}
	if o.cached, err = r.Cache.Add(o.cacheOptions()); err != nil {
		return fmt.Errorf("cache %v: %w", k.GroupResource(), err)
	}
	return nil
}

func (o *objects) cacheOptions() watchcache.KindOptions {
	c := watchcache.KindOptions{
		Name: o.identity.GroupResource().String(), Prefix: o.prefix, Namespaced: o.identity.Namespaced,
		Attributes: func(_ string, value []byte) (watchcache.Attributes, error) {
			a, err := o.newest.Load().Attributes(value)
			return cacheAttributes(a), err
		},
	}
	for i, f := range o.newest.Load().Fields {
		c.Fields = append(c.Fields, f.Label)
		if f.Indexed {
			c.Indexed = append(c.Indexed, i)
		}
	}
	if o.registry.Window != nil {
		c.WindowEvents, c.WindowBytes = o.registry.Window(c.Name)
	}
	return c
}

func cacheAttributes(a resource.Attributes) watchcache.Attributes {
	return watchcache.Attributes{Labels: cacheLabels(a.Labels), Fields: a.Fields}
}

func cacheLabels(pairs []string) watchcache.Labels {
	if len(pairs) == 0 {
		return watchcache.Labels{}
	}
	all := make([]watchcache.Label, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, watchcache.Label{Key: pairs[i], Value: pairs[i+1]})
	}
	return watchcache.MakeLabels(all)
}

// Storage returns the storage of a kind. A Kind that has been replaced still has one, as long as its Identity is
// served.
func (r *Registry) Storage(k *resource.Kind) (*Storage, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if s, ok := r.storages[k]; ok {
		return s, nil
	}
	if o, ok := r.objects[k.GroupResource()]; ok && o.identity == k.Identity {
		return &Storage{objects: o, kind: k}, nil
	}
	return nil, apierrors.NewNotFound(k.GroupResource(), "")
}

// Storage implements the verbs for one kind.
type Storage struct {
	*objects
	kind *resource.Kind
}

// Kind returns the storage's kind.
func (s *Storage) Kind() *resource.Kind { return s.kind }

func (s *Storage) key(namespace, name string) string { return Root + s.kind.Key(namespace, name) }

func (s *Storage) decode(ctx context.Context, e store.Entry) (resource.Object, error) {
	o, err := s.kind.Decode(ctx, e.Value, e.Revision.String())
	if err != nil {
		return nil, codecError(e.Key, err)
	}
	return o, nil
}

// codecError wraps an error of encoding or decoding. An API error, such as one of a conversion webhook, is returned as
// it is.
func codecError(key string, err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	return apierrors.NewInternalError(fmt.Errorf("%s: %w", key, err))
}
