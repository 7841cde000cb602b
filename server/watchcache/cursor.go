package watchcache

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/server/store"
)

var errCursorClosed = errors.New("cursor is closed")

// Cursor is one watch: a place in the history of a kind. It has no buffer and no goroutine; its owner reads as
// fast as it can. It must be closed. One goroutine may use it at a time.
type Cursor struct {
	kind    *Kind
	history *history
	topic   Topic
	at      *link // the last link read
	// thread is the topic's own list, once the cursor has caught up and follows it. Until then, and if the topic has no
	// list, the cursor follows the list of all events and leaves out what does not concern it.
	thread *thread
	direct bool // follows the list that it shall follow
	closed bool
	// floor is a revision at or below which nothing will come.
	floor store.Revision
	err   error
	broad bool // it was begun for all events of the kind
}

// newCursorLocked places a cursor on a link of the list of all events. Nothing at or below from will come.
func (k *Kind) newCursorLocked(topic Topic, at *link, from store.Revision) *Cursor {
	k.cursors.Add(1)
	c := &Cursor{kind: k, history: k.history, topic: topic, at: at, floor: from, direct: !k.threaded(topic)}
	if c.broad = c.direct; c.broad {
		k.broad.Add(1)
	}
	c.joinLocked()
	return c
}

// Next returns the next event. If there is none yet, ok is false; an error is final.
func (c *Cursor) Next() (ev *Event, ok bool, err error) {
	for c.err == nil {
		next := c.at.next.Load()
		if next == nil {
			if c.direct || c.join() {
				return nil, false, nil
			}
			continue
		}
		if err := endError(next); err != nil {
			c.fail(err)
			continue
		}
		e := next.event.Load()
		if e == nil { // it left the window between the two loads
			c.fail(ErrExpired)
			continue
		}
		c.at = next
		if e.Revision <= c.floor { // only if the cursor was started ahead of the cache
			continue
		}
		c.floor = e.Revision - 1 // another event of the same revision may follow
		if c.thread != nil || c.topic.concerns(e) {
			return e, true, nil
		}
	}
	return nil, false, c.err
}

// Wake returns a channel that is closed when it is worth calling Next. It is to be asked for after Next had nothing,
// and not to be kept across a Next.
func (c *Cursor) Wake() <-chan struct{} {
	if c.err != nil {
		return closed
	}
	return c.at.waken()
}

// Revision tells how far the cursor is: no event at or below it will come any more. It never goes down.
func (c *Cursor) Revision() store.Revision {
	if c.err != nil {
		return c.floor
	}
	// The cache's revision must be read first: all events up to it were in the lists before it was set.
	reached := c.kind.cache.Revision()
	next := c.at.next.Load()
	if next != nil {
		e := next.event.Load()
		if e == nil { // an end, or expired
			return c.floor
		}
		reached = e.Revision - 1
	}
	c.floor = max(c.floor, reached)
	return c.floor
}

// Close lets go of what the cursor follows. It may be called more than once.
func (c *Cursor) Close() {
	if c.closed {
		return
	}
	c.closed = true
	c.kind.cursors.Add(-1)
	if c.broad {
		c.kind.broad.Add(-1)
	}
	c.release()
	if c.err == nil {
		c.err = errCursorClosed
	}
}

func (c *Cursor) fail(err error) {
	c.err = fmt.Errorf("watch %s after %d: %w", c.kind.options.Name, c.floor, err)
	c.release()
}

// release leaves the thread and the place in the history, so that a forgotten cursor keeps nothing alive.
func (c *Cursor) release() {
	if c.thread != nil {
		c.kind.mu.Lock()
		c.history.threads.leaveLocked(c.thread)
		c.kind.mu.Unlock()
	}
	c.thread, c.history, c.at = nil, nil, nil
}

// join tells whether the cursor now follows its topic's own list. It does not if there are events to read first.
func (c *Cursor) join() bool {
	c.kind.mu.Lock()
	defer c.kind.mu.Unlock()
	c.joinLocked()
	return c.direct
}

func (c *Cursor) joinLocked() {
	if c.direct || c.at.next.Load() != nil {
		return
	}
	c.thread = c.history.threads.joinLocked(c.topic)
	c.at = c.thread.list.tail
	c.direct = true
}
