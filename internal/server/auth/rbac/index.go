package rbac

import (
	"hash/maphash"
	"maps"
)

// shards is into how many maps an index is divided. A change copies one of them: a hundred entries when there are
// 50,000.
const shards = 512

var seed = maphash.MakeSeed()

// index is a map that can be changed while others read what it was before.
type index[K comparable, V any] struct{ parts *[shards]map[K]V }

func newIndex[K comparable, V any]() index[K, V] { return index[K, V]{new([shards]map[K]V)} }

func shardOf[K comparable](k K) int { return int(maphash.Comparable(seed, k) % shards) }

func (x index[K, V]) get(k K) (V, bool) {
	v, ok := x.parts[shardOf(k)][k]
	return v, ok
}

// edit changes a copy of an index. Each part is copied when it is changed for the first time.
type edit[K comparable, V any] struct {
	index[K, V]
	own [shards]bool
}

func (x index[K, V]) edit() *edit[K, V] {
	parts := *x.parts
	return &edit[K, V]{index: index[K, V]{&parts}}
}

func (e *edit[K, V]) part(k K) map[K]V {
	i := shardOf(k)
	if !e.own[i] {
		e.own[i] = true
		if e.parts[i] == nil {
			e.parts[i] = map[K]V{}
		} else {
			e.parts[i] = maps.Clone(e.parts[i])
		}
	}
	return e.parts[i]
}

func (e *edit[K, V]) set(k K, v V) { e.part(k)[k] = v }

func (e *edit[K, V]) remove(k K) {
	if _, ok := e.get(k); ok {
		delete(e.part(k), k)
	}
}
