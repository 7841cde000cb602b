package watchcache

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/server/store"
)

var errCursorClosed = errors.New("cursor is closed")

// Cursor is one watch: a place in the history of a kind. It has no buffer and no goroutine; its owner reads as fast as
// it can. The owner must close it. Only one goroutine may use it at a time.
type Cursor struct {
	kind    *Kind
	history *history
	topic   Topic
	at      *link // the last link read
	// topicList is the topic's own list, once the cursor has caught up and follows it. Until then, and if the topic has
	// no list, the cursor follows the list of all events and skips those that do not match the topic.
	topicList *topicList
	direct    bool // whether it already follows its final list
	closed    bool
	// floor is a revision; the cursor returns no event at or below it.
	floor      store.Revision
	err        error
	unfiltered bool // it was opened for all events of the kind
}

// newCursorLocked places a cursor on a link of the list of all events. It returns only events after from.
func (k *Kind) newCursorLocked(topic Topic, at *link, from store.Revision) *Cursor {
	k.cursors.Add(1)
	c := &Cursor{kind: k, history: k.history, topic: topic, at: at, floor: from, direct: !k.hasTopicList(topic)}
	if c.unfiltered = c.direct; c.unfiltered {
		k.unfiltered.Add(1)
	}
	c.joinLocked()
	return c
}

// Next returns the next event. If there is none yet, ok is false. An error is final.
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
		if e.Revision <= c.floor { // only if the cursor was started at a revision that the cache has not reached
			continue
		}
		c.floor = e.Revision - 1 // another event of the same revision may follow
		if c.topicList != nil || c.topic.concerns(e) {
			return e, true, nil
		}
	}
	return nil, false, c.err
}

// Wake returns a channel that is closed when the caller should call Next again. Call it after Next returned no event,
// and do not keep the channel across a call of Next.
func (c *Cursor) Wake() <-chan struct{} {
	if c.err != nil {
		return closed
	}
	return c.at.wakeChannel()
}

// Revision returns how far the cursor is: it will return no event at or below that revision. It never decreases.
func (c *Cursor) Revision() store.Revision {
	if c.err != nil {
		return c.floor
	}
	// Read the cache's revision first: all events up to it were put on the lists before it was set.
	reached := c.kind.cache.Revision()
	next := c.at.next.Load()
	if next != nil {
		e := next.event.Load()
		if e == nil { // the end of the list, or expired
			return c.floor
		}
		reached = e.Revision - 1
	}
	c.floor = max(c.floor, reached)
	return c.floor
}

// Close releases everything that the cursor refers to. It may be called more than once.
func (c *Cursor) Close() {
	if c.closed {
		return
	}
	c.closed = true
	c.kind.cursors.Add(-1)
	if c.unfiltered {
		c.kind.unfiltered.Add(-1)
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

// release leaves the topic's list and the place in the history, so that a cursor that is never closed keeps nothing
// alive.
func (c *Cursor) release() {
	if c.topicList != nil {
		c.kind.mu.Lock()
		c.history.topicLists.leaveLocked(c.topicList)
		c.kind.mu.Unlock()
	}
	c.topicList, c.history, c.at = nil, nil, nil
}

// join reports whether the cursor now follows its topic's own list. It does not if there are events to read first.
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
	c.topicList = c.history.topicLists.joinLocked(c.topic)
	c.at = c.topicList.list.tail
	c.direct = true
}
