package informer

import (
	"context"
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/labels"
)

// Snapshot is the cache at one moment. Reading it takes no lock and disturbs nobody; keeping it keeps the objects.
type Snapshot[T any] struct {
	owner    *Shared[T]
	table    *table[T]
	position string
}

// Snapshot returns the cache as it is now. Taking one costs the same for any number of objects.
func (s *Shared[T]) Snapshot() Snapshot[T] {
	s.mu.Lock() // not RLock: copying marks the original
	defer s.mu.Unlock()
	return Snapshot[T]{owner: s, table: s.table.copied(), position: s.position}
}

// Get returns the object of that name.
func (s *Shared[T]) Get(namespace, name string) (T, bool) {
	return s.Lookup(Key{Namespace: namespace, Name: name})
}

// Lookup returns the object with that key.
func (s *Shared[T]) Lookup(key Key) (T, bool) {
	s.mu.RLock()
	v := s.table.get(key)
	s.mu.RUnlock()
	if v == nil {
		var none T
		return none, false
	}
	return s.object(v)
}

// Has reports whether there is an object with that key, without decoding it.
func (s *Shared[T]) Has(key Key) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.get(key) != nil
}

// Len returns the number of objects.
func (s *Shared[T]) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.len()
}

// List ranges over all objects, ordered by key.
func (s *Shared[T]) List() iter.Seq[T] {
	return func(yield func(T) bool) { s.Snapshot().List()(yield) }
}

// All ranges over all keys and objects, ordered by key.
func (s *Shared[T]) All() iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) { s.Snapshot().All()(yield) }
}

// ListNamespace ranges over one namespace's objects. It needs no index.
func (s *Shared[T]) ListNamespace(namespace string) iter.Seq[T] {
	return func(yield func(T) bool) { s.Snapshot().ListNamespace(namespace)(yield) }
}

// Select ranges over the objects whose labels match.
func (s *Shared[T]) Select(selector labels.Selector) iter.Seq[T] {
	return func(yield func(T) bool) { s.Snapshot().Select(selector)(yield) }
}

// By ranges over the objects that an index has under a value. It panics if there is no such index.
func (s *Shared[T]) By(index, value string) iter.Seq[T] {
	return func(yield func(T) bool) { s.Snapshot().By(index, value)(yield) }
}

// Keys ranges over the keys of the objects that an index has under a value. It panics if there is no such index.
func (s *Shared[T]) Keys(index, value string) iter.Seq[Key] {
	return func(yield func(Key) bool) { s.Snapshot().Keys(index, value)(yield) }
}

// AddIndex adds an index: By and Keys then find an object under each of the values that the function returns for it.
// The function must depend on the object only. Indexes can be added at any time.
func (s *Shared[T]) AddIndex(name string, values func(T) []string) error {
	return s.addIndex(index[T]{name: name, values: s.indexer(values), decodes: true})
}

// addIndex builds the index on the side: it may have to decode every object, and readers shall not wait for that.
func (s *Shared[T]) addIndex(ix index[T]) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	exists := s.table.index(ix.name) != nil
	extended := s.table.copied()
	s.mu.Unlock()
	if exists {
		return fmt.Errorf("informer %s has an index %q already", s.options.Name, ix.name)
	}
	extended.addIndex(ix)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table = extended
	return nil
}

func (s *Shared[T]) indexer(values func(T) []string) func(*version[T]) []string {
	return func(v *version[T]) []string {
		object, ok := s.glance(v)
		if !ok {
			return nil
		}
		return values(object)
	}
}

// LastResourceVersion returns the version of the collection that the cache shows; it is empty before the first list.
func (s *Shared[T]) LastResourceVersion() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.position
}

// WaitFor returns when the cache shows the given version of the collection or a later one. After a write, give it the
// resource version that the server returned, and reads show that write. An object outside of the informer's selectors
// is waited for until the next event or bookmark tells that its version has passed.
func (s *Shared[T]) WaitFor(ctx context.Context, resourceVersion string) error {
	wanted := parseVersion(resourceVersion)
	if wanted == 0 {
		return fmt.Errorf("informer %s: resource version %q cannot be compared", s.options.Name, resourceVersion)
	}
	if err := s.Synced(ctx); err != nil {
		return err
	}
	for {
		moved := s.progress.wait()
		reached, shown := s.shows(wanted)
		if shown {
			return nil
		}
		select {
		case <-moved:
		case <-s.finished:
			return fmt.Errorf("informer %s at version %s: %w", s.options.Name, reached, ErrStopped)
		case <-ctx.Done():
			return fmt.Errorf("informer %s is at version %s, waiting for %s: %w", s.options.Name, reached, resourceVersion, context.Cause(ctx))
		}
	}
}

// Get returns the object of that name.
func (s Snapshot[T]) Get(namespace, name string) (T, bool) {
	if v := s.table.get(Key{Namespace: namespace, Name: name}); v != nil {
		return s.owner.object(v)
	}
	var none T
	return none, false
}

// Len returns the number of objects.
func (s Snapshot[T]) Len() int { return s.table.len() }

// ResourceVersion returns the version of the collection that the snapshot shows.
func (s Snapshot[T]) ResourceVersion() string { return s.position }

// List ranges over all objects, ordered by key.
func (s Snapshot[T]) List() iter.Seq[T] { return s.objects(s.table.all()) }

// All ranges over all keys and objects, ordered by key.
func (s Snapshot[T]) All() iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		for v := range s.table.all() {
			if object, ok := s.owner.glance(v); ok && !yield(v.key, object) {
				return
			}
		}
	}
}

// AllKeys ranges over all keys, in order. It decodes nothing.
func (s Snapshot[T]) AllKeys() iter.Seq[Key] {
	return func(yield func(Key) bool) {
		for v := range s.table.all() {
			if !yield(v.key) {
				return
			}
		}
	}
}

// ListNamespace ranges over one namespace's objects.
func (s Snapshot[T]) ListNamespace(namespace string) iter.Seq[T] {
	return s.objects(s.table.inNamespace(namespace))
}

// Select ranges over the objects whose labels match.
func (s Snapshot[T]) Select(selector labels.Selector) iter.Seq[T] {
	if selector.Empty() {
		return s.List()
	}
	return s.objects(func(yield func(*version[T]) bool) {
		for v := range s.table.all() {
			if selector.Matches(s.owner.labels(v)) && !yield(v) {
				return
			}
		}
	})
}

// By ranges over the objects that an index has under a value. It panics if there is no such index.
func (s Snapshot[T]) By(index, value string) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range s.mustIndex(index).with(value) {
			if object, ok := s.owner.object(v); ok && !yield(object) {
				return
			}
		}
	}
}

// Keys ranges over the keys of the objects that an index has under a value. It panics if there is no such index.
func (s Snapshot[T]) Keys(index, value string) iter.Seq[Key] {
	return func(yield func(Key) bool) {
		for v := range s.mustIndex(index).with(value) {
			if !yield(v.key) {
				return
			}
		}
	}
}

// Values ranges over the values that an index has objects under, in order. It panics if there is no such index.
func (s Snapshot[T]) Values(index string) iter.Seq[string] {
	return func(yield func(string) bool) { s.mustIndex(index).eachValue(yield) }
}

func (s Snapshot[T]) mustIndex(name string) *index[T] {
	ix := s.table.index(name)
	if ix == nil {
		panic(fmt.Sprintf("informer %s has no index %q", s.owner.options.Name, name))
	}
	return ix
}

func (s Snapshot[T]) objects(versions func(func(*version[T]) bool)) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range versions {
			if object, ok := s.owner.glance(v); ok && !yield(object) {
				return
			}
		}
	}
}
