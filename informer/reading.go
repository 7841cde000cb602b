package informer

import (
	"context"
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/informer/internal/state"
)

// Snapshot is the cache at one moment. Reading it takes no lock. While a snapshot is referenced, its objects stay in
// memory.
type Snapshot[T any] struct {
	owner    *Shared[T]
	table    *state.Table[T]
	position string
}

// Snapshot returns the cache as it is now. It costs the same for any number of objects.
func (s *Shared[T]) Snapshot() Snapshot[T] {
	var position string
	table := s.copyTable(func() { position = s.position })
	return Snapshot[T]{owner: s, table: table, position: position}
}

// copyTable returns a copy of the table, and calls the function at the moment that the copy shows.
func (s *Shared[T]) copyTable(atThatMoment func()) *state.Table[T] {
	s.mu.Lock() // not RLock: Copy changes marks in the original
	defer s.mu.Unlock()
	atThatMoment()
	return s.table.Copy()
}

// Get returns the object of that name.
func (s *Shared[T]) Get(namespace, name string) (T, bool) {
	return s.Lookup(Key{Namespace: namespace, Name: name})
}

// Lookup returns the object with that key.
func (s *Shared[T]) Lookup(key Key) (T, bool) {
	s.mu.RLock()
	v := s.table.Get(key)
	s.mu.RUnlock()
	if v == nil {
		var none T
		return none, false
	}
	return s.object(v, nil)
}

// Has reports whether there is an object with that key, without decoding it.
func (s *Shared[T]) Has(key Key) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.Get(key) != nil
}

// Len returns the number of objects.
func (s *Shared[T]) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.Len()
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

// By ranges over the objects under a value of an index. It panics if the informer does not have the index.
func (s *Shared[T]) By(index *Index[T], value string) iter.Seq[T] {
	return func(yield func(T) bool) { s.Snapshot().By(index, value)(yield) }
}

// Keys ranges over the keys of the objects under a value of an index. It panics if the informer does not have the
// index.
func (s *Shared[T]) Keys(index *Index[T], value string) iter.Seq[Key] {
	return func(yield func(Key) bool) { s.Snapshot().Keys(index, value)(yield) }
}

// AddIndex adds an index over all objects in the cache, now and later. It does nothing if the informer has the index
// already. Indexes can be added at any time.
func (s *Shared[T]) AddIndex(index *Index[T]) {
	s.writing.Lock()
	defer s.writing.Unlock()
	extended := s.copyTable(func() {})
	if extended.Index(&index.inner) != nil {
		return
	}
	extended.AddIndex(&index.inner, s.peek) // without the lock: it may have to decode every object
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table = extended
}

// LastResourceVersion returns the version of the collection that the cache shows; it is empty before the first list.
func (s *Shared[T]) LastResourceVersion() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.position
}

// WaitFor returns when the cache shows the given version of the collection or a later one. After a write, pass the
// resource version that the server returned: then reads show that write. If the written object is not selected by the
// informer, WaitFor returns with the next event or bookmark of a later version.
func (s *Shared[T]) WaitFor(ctx context.Context, resourceVersion string) error {
	wanted := state.ParseRevision(resourceVersion)
	if wanted == 0 {
		return fmt.Errorf("informer %s: resource version %q cannot be compared", s.options.Name, resourceVersion)
	}
	if err := s.Synced(ctx); err != nil {
		return err
	}
	for {
		moved := s.progress.Wait()
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
	if v := s.table.Get(Key{Namespace: namespace, Name: name}); v != nil {
		return s.owner.object(v, nil)
	}
	var none T
	return none, false
}

// Len returns the number of objects.
func (s Snapshot[T]) Len() int { return s.table.Len() }

// ResourceVersion returns the version of the collection that the snapshot shows.
func (s Snapshot[T]) ResourceVersion() string { return s.position }

// List ranges over all objects, ordered by key.
func (s Snapshot[T]) List() iter.Seq[T] { return s.objects(s.table.All()) }

// All ranges over all keys and objects, ordered by key.
func (s Snapshot[T]) All() iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		for v := range s.table.All() {
			if object, ok := s.owner.peek(v); ok && !yield(v.Key, object) {
				return
			}
		}
	}
}

// AllKeys ranges over all keys, in order. It decodes nothing.
func (s Snapshot[T]) AllKeys() iter.Seq[Key] {
	return func(yield func(Key) bool) {
		for v := range s.table.All() {
			if !yield(v.Key) {
				return
			}
		}
	}
}

// ListNamespace ranges over one namespace's objects.
func (s Snapshot[T]) ListNamespace(namespace string) iter.Seq[T] {
	return s.objects(s.table.InNamespace(namespace))
}

// Select ranges over the objects whose labels match.
func (s Snapshot[T]) Select(selector labels.Selector) iter.Seq[T] {
	if selector.Empty() {
		return s.List()
	}
	return s.objects(func(yield func(*state.Version[T]) bool) {
		for v := range s.table.All() {
			if selector.Matches(s.owner.labels(v)) && !yield(v) {
				return
			}
		}
	})
}

// By ranges over the objects under a value of an index. It panics if the informer did not have the index when the
// snapshot was taken.
func (s Snapshot[T]) By(index *Index[T], value string) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range s.entries(index).With(value) {
			if object, ok := s.owner.object(v, nil); ok && !yield(object) {
				return
			}
		}
	}
}

// Keys ranges over the keys of the objects under a value of an index. It panics like By.
func (s Snapshot[T]) Keys(index *Index[T], value string) iter.Seq[Key] {
	return func(yield func(Key) bool) {
		for v := range s.entries(index).With(value) {
			if !yield(v.Key) {
				return
			}
		}
	}
}

// Values ranges over the values of an index, in order. It panics like By.
func (s Snapshot[T]) Values(index *Index[T]) iter.Seq[string] {
	return func(yield func(string) bool) { s.entries(index).EachValue(yield) }
}

func (s Snapshot[T]) entries(index *Index[T]) *state.Entries[T] {
	entries := s.table.Index(&index.inner)
	if entries == nil {
		panic(fmt.Sprintf("informer %s does not have this index: add it with AddIndex or name it in the options", s.owner.options.Name))
	}
	return entries
}

func (s Snapshot[T]) objects(versions func(func(*state.Version[T]) bool)) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range versions {
			if object, ok := s.owner.peek(v); ok && !yield(object) {
				return
			}
		}
	}
}
