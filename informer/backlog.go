package informer

// notice is what a handler is to be told about one object: everything that happened since it was told last, merged.
type notice[T any] struct {
	old     *version[T] // what the handler knows; nil: nothing
	last    *version[T] // the state with which that object was deleted; nil: it was not
	new     *version[T] // the state now; nil: it is not there
	unknown bool        // the deletion itself was not seen
	resync  bool        // tell it even if nothing has changed
	idle    bool        // nothing to tell any more
}

func noticeOf[T any](c *change[T]) notice[T] {
	return notice[T]{old: c.old, new: c.new, last: c.last, unknown: c.unknown}
}

// backlog holds a handler's notices in the order in which their objects first changed: at most one for each object that
// the handler knows or that is in the cache.
type backlog[T any] struct {
	queue []*notice[T] // queue[head:] is what waits; idle ones among it
	head  int
	byKey map[Key]*notice[T]
}

func (b *backlog[T]) key(n *notice[T]) Key {
	switch {
	case n.new != nil:
		return n.new.key
	case n.last != nil:
		return n.last.key
	}
	return n.old.key
}

// add merges a change into the backlog.
func (b *backlog[T]) add(c *change[T]) {
	key := c.key()
	n, waiting := b.byKey[key]
	if !waiting {
		b.push(key, noticeOf(c))
		return
	}
	n.new = c.new
	if c.new == nil && (n.last == nil || !c.last.replaces(n.last)) {
		n.last, n.unknown = c.last, c.unknown
	}
	if n.new == nil && n.old == nil {
		// It came and went unseen. Were it kept, objects that live briefly would fill the backlog.
		n.idle = true
		delete(b.byKey, key)
		b.tidy()
	}
}

func (b *backlog[T]) push(key Key, n notice[T]) {
	if b.byKey == nil {
		b.byKey = map[Key]*notice[T]{}
	}
	b.byKey[key] = &n
	b.queue = append(b.queue, &n)
}

// pop removes the oldest notice.
func (b *backlog[T]) pop() (notice[T], bool) {
	for b.head < len(b.queue) {
		n := b.queue[b.head]
		b.queue[b.head] = nil
		b.head++
		if b.head == len(b.queue) {
			b.queue, b.head = b.queue[:0], 0
		}
		if !n.idle {
			delete(b.byKey, b.key(n))
			return *n, true
		}
	}
	return notice[T]{}, false
}

// tidy makes room when most of the queue is of no use.
func (b *backlog[T]) tidy() {
	if len(b.queue) < 64 || len(b.queue) < 2*len(b.byKey) {
		return
	}
	kept := b.queue[:0]
	for _, n := range b.queue[b.head:] {
		if !n.idle {
			kept = append(kept, n)
		}
	}
	clear(b.queue[len(kept):])
	b.queue, b.head = kept, 0
}

func (b *backlog[T]) len() int { return len(b.byKey) }
