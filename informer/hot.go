package informer

import (
	"sync"
	"sync/atomic"
)

// hotSet keeps a bounded number of objects in decoded form: those that were asked for last. It goes round like a clock:
// an object that was used since the hand came by stays for another round.
type hotSet[T any] struct {
	decode     func(content []byte) (T, error)
	decodeLike func(content, other []byte, like T) (T, error)
	failed     func(Key, error)
	limit      int

	mu    sync.Mutex
	slots []*version[T] // guarded by mu
	hand  int           // guarded by mu
}

// warm is an object in decoded form.
type warm[T any] struct {
	object T
	used   atomic.Bool
}

// object returns what a version stands for and keeps it at hand. Another version of the object helps if it is at hand;
// it may be nil.
func (h *hotSet[T]) object(v, like *version[T]) (T, bool) {
	if w := v.warm.Load(); w != nil {
		if !w.used.Load() {
			w.used.Store(true)
		}
		return w.object, true
	}
	return h.decoded(v, like, true)
}

// glance returns what a version stands for. It is for loops over everything, after which the set should be as it was:
// only free places are filled.
func (h *hotSet[T]) glance(v *version[T]) (T, bool) {
	if w := v.warm.Load(); w != nil {
		return w.object, true
	}
	return h.decoded(v, nil, false)
}

func (h *hotSet[T]) decoded(v, like *version[T], evict bool) (T, bool) {
	object, err := h.decodeWith(v, like)
	if err != nil {
		h.failed(v.key, err)
		return object, false
	}
	fresh := &warm[T]{object: object}
	h.mu.Lock()
	defer h.mu.Unlock()
	if other := v.warm.Load(); other != nil {
		return other.object, true // somebody was faster, and everybody shall have the same
	}
	switch {
	case len(h.slots) < h.limit:
		h.slots = append(h.slots, v)
		v.warm.Store(fresh)
	case evict && h.limit > 0:
		h.turnLocked()
		h.slots[h.hand] = v
		v.warm.Store(fresh)
	}
	return object, true
}

func (h *hotSet[T]) decodeWith(v, like *version[T]) (T, error) {
	if like != nil {
		if w := like.warm.Load(); w != nil {
			return h.decodeLike(v.packed, like.packed, w.object)
		}
	}
	return h.decode(v.packed)
}

// turnLocked moves the hand to a place that can be given away, and empties it.
func (h *hotSet[T]) turnLocked() {
	for range 2 * len(h.slots) {
		h.hand = (h.hand + 1) % len(h.slots)
		if w := h.slots[h.hand].warm.Load(); w == nil || !w.used.Swap(false) {
			break
		}
	}
	h.slots[h.hand].warm.Store(nil)
}
