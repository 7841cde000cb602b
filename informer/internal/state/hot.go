package state

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/informer/internal/wire"
)

// HotSet keeps the encoded objects that were read last in decoded form as well. The encoded size of its objects is
// bounded. It evicts with the clock algorithm: an object that was used since the hand last passed it is kept until the
// hand comes again.
//
// A superseded version is held only while handlers are being told of the change, so that the first handler decodes it
// for all: see Supersede and Sweep.
type HotSet[T any] struct {
	decoder *wire.Decoder[T]
	limit   int // in bytes of encoded objects
	failed  func(Key, error)

	mu         sync.Mutex
	held       []*Version[T] // guarded by mu: the clock; hand is an index into it
	bytes      int           // guarded by mu: the encoded size of all in held
	hand       int           // guarded by mu
	superseded []*Version[T] // guarded by mu: superseded versions in held, oldest first; a version may be in it twice
}

// decoded is a decoded object and its place in the set.
type decoded[T any] struct {
	object T
	used   atomic.Bool
	place  int // its index in held, guarded by the hot set's mu
}

// NewHotSet returns an empty set. The function failed receives errors of versions that cannot be decoded.
func NewHotSet[T any](limit int, failed func(Key, error)) *HotSet[T] {
	return &HotSet[T]{decoder: wire.NewDecoder[T](), limit: limit, failed: failed}
}

// Object returns a version's object and keeps it decoded. Decoding is cheaper if like, another version of the same
// object, is held; like may be nil.
func (h *HotSet[T]) Object(v, like *Version[T]) (T, bool) {
	if d := v.decoded.Load(); d != nil {
		if !d.used.Load() {
			d.used.Store(true)
		}
		return d.object, true
	}
	return h.decode(v, like, true)
}

// Peek returns a version's object without evicting others. It is for loops over everything.
func (h *HotSet[T]) Peek(v *Version[T]) (T, bool) {
	if d := v.decoded.Load(); d != nil {
		return d.object, true
	}
	return h.decode(v, nil, false)
}

func (h *HotSet[T]) decode(v, like *Version[T], evict bool) (T, bool) {
	object, err := h.decodeLike(v, like)
	if err != nil {
		h.failed(v.Key, err)
		return object, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if other := v.decoded.Load(); other != nil {
		return other.object, true // another goroutine was first, and all callers must get the same object
	}
	if size := len(v.Packed); h.bytes+size <= h.limit || evict && size <= h.limit {
		h.evictLocked(size)
		h.holdLocked(v, object)
	}
	return object, true
}

func (h *HotSet[T]) decodeLike(v, like *Version[T]) (T, error) {
	if like != nil {
		if d := like.decoded.Load(); d != nil {
			return h.decoder.DecodeLike(v.Packed, like.Packed, d.object)
		}
	}
	return h.decoder.Decode(v.Packed)
}

func (h *HotSet[T]) holdLocked(v *Version[T], object T) {
	v.decoded.Store(&decoded[T]{object: object, place: len(h.held)})
	h.held = append(h.held, v)
	h.bytes += len(v.Packed)
	if v.Superseded.Load() {
		h.superseded = append(h.superseded, v)
	}
}

// evictLocked evicts objects that were not used lately until there is space for so many bytes.
func (h *HotSet[T]) evictLocked(size int) {
	for h.bytes+size > h.limit && len(h.held) > 0 {
		h.hand = (h.hand + 1) % len(h.held)
		if v := h.held[h.hand]; !v.decoded.Load().used.Swap(false) {
			h.dropLocked(v)
		}
	}
}

func (h *HotSet[T]) dropLocked(v *Version[T]) {
	d := v.decoded.Swap(nil)
	if d == nil {
		return
	}
	last := len(h.held) - 1
	h.held[d.place] = h.held[last]
	h.held[d.place].placeAt(d.place)
	h.held[last] = nil
	h.held = h.held[:last]
	h.bytes -= len(v.Packed)
}

func (v *Version[T]) placeAt(place int) {
	if d := v.decoded.Load(); d != nil {
		d.place = place
	}
}

// Supersede marks a version that is not its object's current state any more.
func (h *HotSet[T]) Supersede(v *Version[T]) {
	v.Superseded.Store(true)
	if v.decoded.Load() == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.superseded = append(h.superseded, v)
}

// Sweep drops superseded versions, except the newest keep of them.
func (h *HotSet[T]) Sweep(keep int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	excess := len(h.superseded) - keep
	if excess <= 0 {
		return
	}
	for _, v := range h.superseded[:excess] {
		h.dropLocked(v)
	}
	kept := copy(h.superseded, h.superseded[excess:])
	clear(h.superseded[kept:])
	h.superseded = h.superseded[:kept]
}

// Capacity returns how many objects the set can hold, if they have the average size of those that it holds.
func (h *HotSet[T]) Capacity() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.held) == 0 {
		return math.MaxInt
	}
	return max(1, h.limit/max(1, h.bytes/len(h.held)))
}
