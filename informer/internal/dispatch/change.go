package dispatch

import (
	"sync/atomic"

	"github.com/millrace/millrace/informer/internal/state"
)

// Change is one change of one object. Changes form a linked list. Each handler has a cursor into it, so an informer
// with fifty handlers records a change once. Changes that all cursors have passed are garbage.
type Change[T any] struct {
	Old     *state.Version[T] // nil: the object did not exist
	New     *state.Version[T] // nil: it does not exist any more
	Last    *state.Version[T] // if New is nil: the last state, from the server or the last known
	Unknown bool              // the watch did not report the deletion

	next atomic.Pointer[Change[T]]
}

// Next returns the following change, or nil.
func (c *Change[T]) Next() *Change[T] { return c.next.Load() }

func (c *Change[T]) key() state.Key {
	if c.New != nil {
		return c.New.Key
	}
	return c.Last.Key
}

// Changes are changes that take effect together. The zero value is empty.
type Changes[T any] struct {
	First, last *Change[T]
	length      uint64
}

func (c *Changes[T]) add(change *Change[T]) {
	if c.First == nil {
		c.First = change
	} else {
		c.last.next.Store(change)
	}
	c.last = change
	c.length++
}

// Set adds the change to a new version. If that has another UID, the deletion of the old object is added first.
func (c *Changes[T]) Set(old, new *state.Version[T]) {
	if old != nil && new.Replaces(old) {
		c.Delete(old, old, true)
		old = nil
	}
	c.add(&Change[T]{Old: old, New: new})
}

// Delete adds the deletion of an object.
func (c *Changes[T]) Delete(old, last *state.Version[T], unknown bool) {
	c.add(&Change[T]{Old: old, Last: last, Unknown: unknown})
}
