package memory

import (
	"sync/atomic"

	"github.com/millrace/millrace/internal/server/store"
)

// Place is where a store that makes changes durable keeps a value. The zero value is nowhere. A value that has a place
// is in memory only as long as its change is remembered.
type Place struct {
	File          any // only compared
	Offset        int64
	Length, Index uint32
}

// item is the value of a key since one revision. The tree, its copies and the history share it.
type item struct {
	key  string
	rev  store.Revision
	held atomic.Pointer[held] // nil if there is no value; the value is always the same, but not where it is
}

// held is a value, or where it is.
type held struct {
	value  []byte
	length int
	place  Place
}

func newItem(key string, value []byte, rev store.Revision, place Place) *item {
	i := &item{key: key, rev: rev}
	i.held.Store(&held{value: value, length: len(value), place: place})
	return i
}

func (i *item) size() int64 {
	if h := i.held.Load(); h != nil {
		return int64(len(i.key) + h.length)
	}
	return int64(len(i.key))
}

// drop forgets a value that has a place.
func (i *item) drop() {
	i.change(func(h *held) bool {
		dropped := h.value != nil && h.place.File != nil
		h.value = nil
		return dropped
	})
}

// change replaces what is held, if change returns true.
func (i *item) change(change func(*held) bool) {
	for {
		old := i.held.Load()
		if old == nil {
			return
		}
		h := *old
		if !change(&h) || i.held.CompareAndSwap(old, &h) {
			return
		}
	}
}

// entries collects entries, of which some lack their values.
type entries struct {
	all    []store.Entry
	lacks  []int
	places []Place
}

func (e *entries) add(i *item) {
	h := i.held.Load()
	if h.value == nil && h.place.File != nil {
		e.lacks, e.places = append(e.lacks, len(e.all)), append(e.places, h.place)
	}
	e.all = append(e.all, store.Entry{Key: i.key, Value: h.value, Revision: i.rev})
}

// complete reads the values that are not in memory.
func (s *Store) complete(e entries) ([]store.Entry, error) {
	if len(e.lacks) == 0 {
		return e.all, nil
	}
	err := s.options.Load(e.places, func(n int, value []byte) { e.all[e.lacks[n]].Value = value })
	if err == nil {
		return e.all, nil
	}
	select {
	case <-s.closed:
		return nil, store.ErrClosed
	default:
		return nil, err
	}
}

// entry returns the entry of an item. It may read from the disk, so no lock should be held.
func (s *Store) entry(i *item) (store.Entry, error) {
	var e entries
	e.add(i)
	all, err := s.complete(e)
	if err != nil {
		return store.Entry{}, err
	}
	return all[0], nil
}

// Ref is an entry whose value can be moved.
type Ref struct{ item *item }

// Move says that the value is at another place from now on.
func (r Ref) Move(to Place) {
	r.item.change(func(h *held) bool { h.place = to; return true })
}
