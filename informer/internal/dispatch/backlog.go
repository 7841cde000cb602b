package dispatch

import "github.com/millrace/millrace/informer/internal/state"

// Notice is what a handler is told about one object: all changes since it was last told, merged.
type Notice[T any] struct {
	Old     *state.Version[T] // what the handler was told last; nil: nothing
	Last    *state.Version[T] // the last state of Old if that was deleted; nil: it was not
	New     *state.Version[T] // the state now; nil: it does not exist
	Unknown bool              // the watch did not report the deletion
	Resync  bool              // report it even if nothing has changed
	Initial bool              // the object was in the cache when the handler was added

	dropped bool // there is nothing left to report
}

func noticeOf[T any](c *Change[T]) Notice[T] {
	return Notice[T]{Old: c.Old, New: c.New, Last: c.Last, Unknown: c.Unknown}
}

// backlog holds a handler's notices in the order in which their objects first changed. There is at most one for each
// object that the handler knows or that is in the cache.
type backlog[T any] struct {
	queue []*Notice[T] // queue[head:] is waiting, including dropped ones
	head  int
	byKey map[state.Key]*Notice[T]
}

func (n *Notice[T]) key() state.Key {
	switch {
	case n.New != nil:
		return n.New.Key
	case n.Last != nil:
		return n.Last.Key
	}
	return n.Old.Key
}

// add merges a change into the backlog.
func (b *backlog[T]) add(c *Change[T]) {
	key := c.key()
	n, waiting := b.byKey[key]
	if !waiting {
		b.push(key, noticeOf(c))
		return
	}
	n.New = c.New
	if c.New == nil && (n.Last == nil || !c.Last.Replaces(n.Last)) {
		n.Last, n.Unknown = c.Last, c.Unknown
	}
	if n.New == nil && n.Old == nil {
		// The object was created and deleted before the handler was told of it.
		n.dropped = true
		delete(b.byKey, key)
		b.compact()
	}
}

func (b *backlog[T]) push(key state.Key, n Notice[T]) {
	if b.byKey == nil {
		b.byKey = map[state.Key]*Notice[T]{}
	}
	b.byKey[key] = &n
	b.queue = append(b.queue, &n)
}

// pop removes the oldest notice.
func (b *backlog[T]) pop() (Notice[T], bool) {
	for b.head < len(b.queue) {
		n := b.queue[b.head]
		b.queue[b.head] = nil
		b.head++
		if b.head == len(b.queue) {
			b.queue, b.head = b.queue[:0], 0
		}
		if !n.dropped {
			delete(b.byKey, n.key())
			return *n, true
		}
	}
	return Notice[T]{}, false
}

// compact removes dropped notices when they are most of the queue, so that objects that live briefly do not fill it.
func (b *backlog[T]) compact() {
	if len(b.queue) < 64 || len(b.queue) < 2*len(b.byKey) {
		return
	}
	kept := b.queue[:0]
	for _, n := range b.queue[b.head:] {
		if !n.dropped {
			kept = append(kept, n)
		}
	}
	clear(b.queue[len(kept):])
	b.queue, b.head = kept, 0
}

func (b *backlog[T]) len() int { return len(b.byKey) }
