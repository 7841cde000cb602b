package informer

import "sync/atomic"

// change is a step of one object from one state to the next. Changes form a linked list: readers are cursors into it,
// so an informer with fifty handlers records a change once. What all readers have passed is garbage.
type change[T any] struct {
	old     *version[T] // nil: the object was not there
	new     *version[T] // nil: it is not there any more
	last    *version[T] // if new is nil: the last state, as the server told it or as it was known
	unknown bool        // the deletion itself was not seen

	next atomic.Pointer[change[T]]
}

func (c *change[T]) key() Key {
	if c.new != nil {
		return c.new.key
	}
	return c.last.key
}

// chain collects changes that take effect together.
type chain[T any] struct {
	first, last *change[T]
	length      int
}

func (c *chain[T]) add(step *change[T]) {
	if step.old != nil {
		step.old.past.Store(true)
	}
	if c.first == nil {
		c.first = step
	} else {
		c.last.next.Store(step)
	}
	c.last = step
	c.length++
}

// set adds the step to a new version.
func (c *chain[T]) set(old, new *version[T]) {
	if old != nil && new.replaces(old) {
		c.delete(old, old, true)
		old = nil
	}
	c.add(&change[T]{old: old, new: new})
}

// delete adds the step to nothing.
func (c *chain[T]) delete(old, last *version[T], unknown bool) {
	c.add(&change[T]{old: old, last: last, unknown: unknown})
}
