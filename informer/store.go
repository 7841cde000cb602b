package informer

import (
	"iter"
	"sync"

	"github.com/millrace/millrace/informer/internal/state"
)

// StoreOptions configure a Store. For objects with metadata the zero value works.
type StoreOptions[T any] struct {
	// Key returns an object's key. Default: its namespace and name.
	Key func(T) Key
	// Indexes are the initial indexes. AddIndex adds more.
	Indexes []*Index[T]
}

// Store holds objects by key and by any number of indexes. It is safe for use by several goroutines. Ranging over it
// shows the state at one moment and holds no lock. It is a Target: a Reflector can fill it.
type Store[T any] struct {
	key func(T) Key

	mu       sync.RWMutex
	table    *state.Table[T] // guarded by mu
	position string          // guarded by mu
}

var _ Target[any] = (*Store[any])(nil)

// NewStore returns an empty store. It panics if there is no key function for objects that have no metadata.
func NewStore[T any](options StoreOptions[T]) *Store[T] {
	s := &Store[T]{key: state.KeyFunc(options.Key), table: state.NewTable[T]()}
	for _, index := range options.Indexes {
		s.AddIndex(index)
	}
	return s
}

// Add adds an object, or replaces the one with its key.
func (s *Store[T]) Add(object T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putLocked(s.table, object)
	return nil
}

func (s *Store[T]) putLocked(t *state.Table[T], object T) {
	v := &state.Version[T]{Key: s.key(object), Plain: object}
	t.Describe(v)
	t.Put(v)
}

// Update is Add: the object need not exist.
func (s *Store[T]) Update(object T) error { return s.Add(object) }

// Delete removes the object with this one's key, if there is one.
func (s *Store[T]) Delete(object T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.Remove(s.key(object))
	return nil
}

// Replace replaces all objects in one step.
func (s *Store[T]) Replace(objects []T, resourceVersion string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := s.table.Emptied()
	for _, object := range objects {
		s.putLocked(fresh, object)
	}
	s.table, s.position = fresh, resourceVersion
	return nil
}

// Bookmark records the resource version that the store shows.
func (s *Store[T]) Bookmark(resourceVersion string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.position = resourceVersion
}

// Resync does nothing: a store has no handlers.
func (s *Store[T]) Resync() error { return nil }

// LastResourceVersion returns the resource version of the last Replace or Bookmark.
func (s *Store[T]) LastResourceVersion() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.position
}

// Lookup returns the object with a key.
func (s *Store[T]) Lookup(key Key) (T, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if v := s.table.Get(key); v != nil {
		return v.Plain, true
	}
	var none T
	return none, false
}

// Len returns the number of objects.
func (s *Store[T]) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.Len()
}

func (s *Store[T]) snapshot() *state.Table[T] {
	s.mu.Lock() // not RLock: Copy changes marks in the original
	defer s.mu.Unlock()
	return s.table.Copy()
}

// List ranges over all objects, ordered by key.
func (s *Store[T]) List() iter.Seq[T] {
	return func(yield func(T) bool) { objectsOf(s.snapshot().All())(yield) }
}

// Keys ranges over all keys, in order.
func (s *Store[T]) Keys() iter.Seq[Key] {
	return func(yield func(Key) bool) {
		for v := range s.snapshot().All() {
			if !yield(v.Key) {
				return
			}
		}
	}
}

// AddIndex adds an index over all objects in the store, now and later. It does nothing if the store has the index
// already.
func (s *Store[T]) AddIndex(index *Index[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.table.Index(&index.inner) == nil {
		s.table.AddIndex(&index.inner, func(v *state.Version[T]) (T, bool) { return v.Plain, true })
	}
}

// By ranges over the objects under a value of an index, ordered by key. It panics if the store does not have the index.
func (s *Store[T]) By(index *Index[T], value string) iter.Seq[T] {
	return func(yield func(T) bool) { objectsOf(s.entries(index).With(value))(yield) }
}

// Values ranges over the values of an index, in order. It panics if the store does not have the index.
func (s *Store[T]) Values(index *Index[T]) iter.Seq[string] {
	return func(yield func(string) bool) { s.entries(index).EachValue(yield) }
}

func (s *Store[T]) entries(index *Index[T]) *state.Entries[T] {
	entries := s.snapshot().Index(&index.inner)
	if entries == nil {
		panic("informer: the store does not have this index: add it with AddIndex or name it in the options")
	}
	return entries
}

func objectsOf[T any](versions iter.Seq[*state.Version[T]]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range versions {
			if !yield(v.Plain) {
				return
			}
		}
	}
}
