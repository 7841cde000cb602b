// Package registry carries out the verbs, for any kind: create, get, list, watch, update, delete. It completes and checks
// what all objects share, calls the rules of the kind for the rest, and turns each change into one compare-and-swap in
// the store.
//
// What is guaranteed:
//
//   - A change is checked against the state that it replaces: if the store holds another by then, the change is made
//     anew from that one, or refused as a conflict when the caller named a version.
//   - Reads without a resource version are linearizable. A read from the watch cache waits until the cache has come as far
//     as the store was when the read began.
//   - Nothing is written when the outcome equals what is stored; the caller gets the present version.
//   - Errors are *apierrors.StatusError with Kubernetes' reasons and words, made in this package and nowhere below it.
package registry

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace/millrace/server/resource"
	"github.com/millrace/millrace/server/store"
	"github.com/millrace/millrace/server/watchcache"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Root is the prefix of all keys.
const Root = "/registry/"

// Options are what a registry stands on.
type Options struct {
	Store     store.Store
	Cache     *watchcache.Cache
	Catalogue *resource.Catalogue
	// Track keeps metadata.managedFields; nil leaves them as they come.
	Track Tracker
	// Admission is asked in this order.
	Admission []Admission
	// Uncached names the group-resources that are served from the store alone; "*" is all of them.
	Uncached map[string]bool
	// Window bounds the history that is kept for a group-resource; zero values are the cache's defaults.
	Window func(groupResource string) (events, bytes int)
	// Allocate gives a new object what only one may have (addresses, ports), and takes it back.
	Allocate Allocator
	Now      func() time.Time
	Logger   *slog.Logger
}

// Tracker records who owns which fields.
type Tracker interface {
	// Track notes in obj what manager changed between old and obj; old is nil for a create.
	Track(face *resource.Face, view string, old, obj resource.Object, manager string) error
}

// Registry holds one Storage for each kind of a catalogue.
type Registry struct {
	Options

	mu       sync.RWMutex // guards storages
	storages map[*resource.Kind]*Storage
}

// New makes the storages of all kinds that are in the catalogue now.
func New(o Options) (*Registry, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registry{Options: o, storages: map[*resource.Kind]*Storage{}}
	for _, k := range o.Catalogue.Kinds() {
		if err := r.Add(k); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Add makes the storage of a kind. Kinds that can only be created (reviews) have none.
func (r *Registry) Add(k *resource.Kind) error {
	s := &Storage{registry: r, kind: k, prefix: Root + k.Prefix + "/"}
	if k.Offers("list") && !r.Uncached["*"] && !r.Uncached[k.GroupResource().String()] {
		cached, err := r.Cache.Add(r.cacheOptions(k, s.prefix))
		if err != nil {
			return fmt.Errorf("cache %v: %w", k.GroupResource(), err)
		}
		s.cached = cached
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.storages[k] = s
	return nil
}

func (r *Registry) cacheOptions(k *resource.Kind, prefix string) watchcache.KindOptions {
	o := watchcache.KindOptions{
		Name: k.GroupResource().String(), Prefix: prefix, Namespaced: k.Namespaced,
		Attributes: func(_ string, value []byte) (watchcache.Attributes, error) {
			a, err := k.AttributesOf(value)
			return watchcache.Attributes{Labels: cacheLabels(a.Labels), Fields: a.Fields}, err
		},
	}
	for i, f := range k.Fields {
		o.Fields = append(o.Fields, f.Label)
		if f.Indexed {
			o.Indexed = append(o.Indexed, i)
		}
	}
	if r.Window != nil {
		o.WindowEvents, o.WindowBytes = r.Window(o.Name)
	}
	return o
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

// Remove ends the storage of a kind, and the watches on it.
func (r *Registry) Remove(k *resource.Kind) {
	r.mu.Lock()
	s := r.storages[k]
	delete(r.storages, k)
	r.mu.Unlock()
	if s != nil && s.cached != nil {
		r.Cache.Remove(s.cached)
	}
}

// Storage finds the storage of a kind.
func (r *Registry) Storage(k *resource.Kind) (*Storage, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s, ok := r.storages[k]
	if !ok {
		return nil, apierrors.NewNotFound(k.GroupResource(), "")
	}
	return s, nil
}

// Storage carries out the verbs on one kind.
type Storage struct {
	registry *Registry
	kind     *resource.Kind
	prefix   string
	cached   *watchcache.Kind // nil if the kind is not cached
	recent   recent
}

// Kind is what the storage keeps.
func (s *Storage) Kind() *resource.Kind { return s.kind }

func (s *Storage) key(namespace, name string) string { return Root + s.kind.Key(namespace, name) }

func (s *Storage) decode(e store.Entry) (resource.Object, error) {
	o, err := s.kind.Codec.Decode(e.Value, e.Revision.String())
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("%s: %w", e.Key, err))
	}
	return o, nil
}
