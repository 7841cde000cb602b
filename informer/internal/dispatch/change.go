package dispatch

import (
	"sync/atomic"

	"github.com/millrace/millrace/informer/internal/state"
)

// Change is a step of one object from one state to the next. Changes form a linked list: handlers have cursors into it,
// so an informer with fifty handlers records a change once. What all cursors have passed is garbage.
type Change[T any] struct {
	Old     *state.Version[T] // nil: the object was not there
	New     *state.Version[T] // nil: it is not there any more
	Last    *state.Version[T] // if New is nil: the last state, as the server told it or as it was known
	Unknown bool              // the deletion itself was not seen

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

// Changes are changes that take effect together. The zero value has none.
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

// Set adds the change to a new version. If that is another object under the same name, the old one is deleted first.
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
