package informer

import (
	"fmt"
	"iter"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StoreOptions configure a Store. For objects with metadata the zero value works.
type StoreOptions[T any] struct {
	// Key names an object. Default: by its namespace and name.
	Key func(T) Key
	// Indexes are those that exist from the start.
	Indexes map[string]func(T) []string
}

// Store holds objects by key and by any number of indexes. It is safe for use by several goroutines; ranging over it
// shows one moment and holds no lock. It is a Target: a Reflector can fill it.
type Store[T any] struct {
	key func(T) Key

	mu       sync.RWMutex
	table    *table[T] // guarded by mu
	position string    // guarded by mu
}

var _ Target[any] = (*Store[any])(nil)

// NewStore returns an empty store. It panics if there is no key function for objects that have no metadata.
func NewStore[T any](options StoreOptions[T]) *Store[T] {
	s := &Store[T]{key: keyFunc(options.Key), table: newTable[T]()}
	for name, values := range options.Indexes {
		s.table.addIndex(plainIndex(name, values))
	}
	return s
}

func keyFunc[T any](given func(T) Key) func(T) Key {
	if given != nil {
		return given
	}
	return func(object T) Key {
		m, ok := any(object).(metav1.Object)
		if !ok {
			panic(fmt.Sprintf("informer: %T has no metadata, so the options need a key function", object))
		}
		return KeyOf(m)
	}
}

func plainIndex[T any](name string, values func(T) []string) index[T] {
	return index[T]{name: name, values: func(v *version[T]) []string { return values(v.plain) }}
}

// Add puts an object in, in the place of the one with its key.
func (s *Store[T]) Add(object T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putLocked(s.table, object)
	return nil
}

func (s *Store[T]) putLocked(t *table[T], object T) {
	v := &version[T]{key: s.key(object), plain: object}
	t.describe(v)
	t.put(v)
}

// Update is Add: what is put in need not be there before.
func (s *Store[T]) Update(object T) error { return s.Add(object) }

// Delete removes the object with this one's key, if there is one.
func (s *Store[T]) Delete(object T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.remove(s.key(object))
	return nil
}

// Replace makes these objects the content of the store, as a whole.
func (s *Store[T]) Replace(objects []T, resourceVersion string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := s.table.emptied()
	for _, object := range objects {
		s.putLocked(fresh, object)
	}
	s.table, s.position = fresh, resourceVersion
	return nil
}

// Bookmark records the version that the store shows.
func (s *Store[T]) Bookmark(resourceVersion string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.position = resourceVersion
}

// Resync does nothing: a store has nobody to tell.
func (s *Store[T]) Resync() error { return nil }

// LastResourceVersion returns what the last Replace or Bookmark said.
func (s *Store[T]) LastResourceVersion() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.position
}

// Lookup returns the object with a key.
func (s *Store[T]) Lookup(key Key) (T, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if v := s.table.get(key); v != nil {
		return v.plain, true
	}
	var none T
	return none, false
}

// Len returns the number of objects.
func (s *Store[T]) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.len()
}

func (s *Store[T]) snapshot() *table[T] {
	s.mu.Lock() // not RLock: copying marks the original
	defer s.mu.Unlock()
	return s.table.copied()
}

// List ranges over all objects, ordered by key.
func (s *Store[T]) List() iter.Seq[T] {
	return func(yield func(T) bool) { objectsOf(s.snapshot().all())(yield) }
}

// Keys ranges over all keys, in order.
func (s *Store[T]) Keys() iter.Seq[Key] {
	return func(yield func(Key) bool) {
		for v := range s.snapshot().all() {
			if !yield(v.key) {
				return
			}
		}
	}
}

// AddIndex adds an index, over what the store holds now and will hold.
func (s *Store[T]) AddIndex(name string, values func(T) []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.table.index(name) != nil {
		return fmt.Errorf("store has an index %q already", name)
	}
	s.table.addIndex(plainIndex(name, values))
	return nil
}

// By ranges over the objects that an index has under a value, ordered by key. It panics if there is no such index.
func (s *Store[T]) By(name, value string) iter.Seq[T] {
	return func(yield func(T) bool) {
		ix := s.snapshot().index(name)
		if ix == nil {
			panic(fmt.Sprintf("store has no index %q", name))
		}
		objectsOf(ix.with(value))(yield)
	}
}

// Values ranges over the values that an index has objects under, in order. It panics if there is no such index.
func (s *Store[T]) Values(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		ix := s.snapshot().index(name)
		if ix == nil {
			panic(fmt.Sprintf("store has no index %q", name))
		}
		ix.eachValue(yield)
	}
}

func objectsOf[T any](versions iter.Seq[*version[T]]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range versions {
			if !yield(v.plain) {
				return
			}
		}
	}
}
