package clientgo

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace/millrace/informer"
)

// indexer is a cache.Indexer over an informer's cache.
type indexer[T informer.Object] struct {
	owner *Informer[T]

	mu        sync.RWMutex
	functions cache.Indexers                // guarded by mu
	indexes   map[string]*informer.Index[T] // guarded by mu: the indexes made of functions
}

func (x *indexer[T]) Add(any) error               { return ErrReadOnly }
func (x *indexer[T]) Update(any) error            { return ErrReadOnly }
func (x *indexer[T]) Delete(any) error            { return ErrReadOnly }
func (x *indexer[T]) Replace([]any, string) error { return ErrReadOnly }
func (x *indexer[T]) Resync() error               { return nil }
func (x *indexer[T]) Bookmark(string)             {}
func (x *indexer[T]) shared() *informer.Shared[T] { return x.owner.Shared() }
func (x *indexer[T]) LastStoreSyncResourceVersion() string {
	return x.shared().LastResourceVersion()
}

// List implements cache.Store.
func (x *indexer[T]) List() []any {
	snapshot := x.shared().Snapshot()
	all := make([]any, 0, snapshot.Len())
	for object := range snapshot.List() {
		all = append(all, object)
	}
	return all
}

// ListKeys implements cache.Store.
func (x *indexer[T]) ListKeys() []string {
	snapshot := x.shared().Snapshot()
	all := make([]string, 0, snapshot.Len())
	for key := range snapshot.AllKeys() {
		all = append(all, key.String())
	}
	return all
}

// Get implements cache.Store.
func (x *indexer[T]) Get(object any) (any, bool, error) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		return nil, false, err
	}
	return x.GetByKey(key)
}

// GetByKey implements cache.Store.
func (x *indexer[T]) GetByKey(key string) (any, bool, error) {
	parsed, err := informer.ParseKey(key)
	if err != nil {
		return nil, false, nil // a missing object is not an error here
	}
	object, found := x.shared().Lookup(parsed)
	if !found {
		return nil, false, nil
	}
	return object, true, nil
}

// GetIndexers implements cache.Indexer.
func (x *indexer[T]) GetIndexers() cache.Indexers {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return maps.Clone(x.functions)
}

// AddIndexers implements cache.Indexer. The index by namespace needs no index of ours: the cache is ordered by
// namespace.
func (x *indexer[T]) AddIndexers(indexers cache.Indexers) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for name := range indexers {
		if _, exists := x.functions[name]; exists {
			return fmt.Errorf("indexer conflict: %s", name)
		}
	}
	for name, function := range indexers {
		x.functions[name] = function
		if name == cache.NamespaceIndex {
			continue
		}
		x.indexes[name] = informer.NewIndex(func(object T) []string {
			values, err := function(object)
			if err != nil {
				return nil
			}
			return values
		})
		x.shared().AddIndex(x.indexes[name])
	}
	return nil
}

// index returns the index with a name. It is nil for the index by namespace, which needs none.
func (x *indexer[T]) index(name string) *informer.Index[T] {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.indexes[name]
}

func (x *indexer[T]) function(name string) (cache.IndexFunc, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	function, ok := x.functions[name]
	if !ok {
		return nil, fmt.Errorf("Index with name %s does not exist", name) //nolint:staticcheck // the wording is client-go's
	}
	return function, nil
}

// Index implements cache.Indexer.
func (x *indexer[T]) Index(name string, object any) ([]any, error) {
	function, err := x.function(name)
	if err != nil {
		return nil, err
	}
	values, err := function(object)
	if err != nil {
		return nil, err
	}
	if len(values) == 1 {
		return x.ByIndex(name, values[0])
	}
	var found []any
	seen := map[informer.Key]bool{}
	for _, value := range values {
		some, err := x.ByIndex(name, value)
		if err != nil {
			return nil, err
		}
		for _, one := range some {
			if key := informer.KeyOf(one.(metav1.Object)); !seen[key] {
				seen[key] = true
				found = append(found, one)
			}
		}
	}
	return found, nil
}

// ByIndex implements cache.Indexer.
func (x *indexer[T]) ByIndex(name, value string) ([]any, error) {
	if _, err := x.function(name); err != nil {
		return nil, err
	}
	objects := x.shared().ListNamespace(value)
	if name != cache.NamespaceIndex {
		objects = x.shared().By(x.index(name), value)
	}
	var found []any
	for object := range objects {
		found = append(found, object)
	}
	return found, nil
}

// IndexKeys implements cache.Indexer.
func (x *indexer[T]) IndexKeys(name, value string) ([]string, error) {
	objects, err := x.ByIndex(name, value)
	keys := make([]string, len(objects))
	for i, object := range objects {
		keys[i] = informer.KeyOf(object.(metav1.Object)).String()
	}
	return keys, err
}

// ListIndexFuncValues implements cache.Indexer.
func (x *indexer[T]) ListIndexFuncValues(name string) []string {
	snapshot := x.shared().Snapshot()
	switch _, err := x.function(name); {
	case err != nil:
		return nil
	case name != cache.NamespaceIndex:
		return slices.Collect(snapshot.Values(x.index(name)))
	}
	var namespaces []string
	for key := range snapshot.AllKeys() {
		if n := len(namespaces); n == 0 || namespaces[n-1] != key.Namespace {
			namespaces = append(namespaces, key.Namespace)
		}
	}
	return namespaces
}
