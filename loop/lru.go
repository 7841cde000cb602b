package loop

// lru keeps at least size/2 and at most size of the entries used last. It drops whole generations, which is cheaper
// than an exact order.
type lru[K comparable, V any] struct {
	young, old map[K]V
	half       int
}

func newLRU[K comparable, V any](size int) lru[K, V] {
	return lru[K, V]{young: map[K]V{}, half: size / 2}
}

func (l *lru[K, V]) get(key K) (V, bool) {
	if v, ok := l.young[key]; ok {
		return v, true
	}
	v, ok := l.old[key]
	if ok {
		l.put(key, v)
	}
	return v, ok
}

func (l *lru[K, V]) put(key K, v V) {
	if _, ok := l.young[key]; !ok && len(l.young) >= l.half {
		l.young, l.old = map[K]V{}, l.young
	}
	l.young[key] = v
}
