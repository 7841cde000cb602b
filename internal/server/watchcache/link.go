package watchcache

import "sync/atomic"

// link is one place in a list of events. A cursor stands on the last link that it has read; what it has not read
// follows. Only the writer sets next: once from nil to the next link, and later perhaps to one of the ends below.
//
// The pointer to the event is cleared when the event leaves the window. So an idle or slow cursor that stands on the
// link keeps the link alive, but no event.
type link struct {
	next  atomic.Pointer[link]
	event atomic.Pointer[Event]
	wake  atomic.Pointer[wake]
}

// wake is a channel that is closed when its link gets a successor. All cursors that wait on a link share it; a link on
// which none waits has no channel.
type wake struct{ ch chan struct{} }

// The ends of a list.
var (
	endExpired  = new(link)
	endRefilled = new(link)
	endReplaced = new(link)
	endGone     = new(link)
	endStopped  = new(link)
)

// endError returns the error for one of the ends, or nil for any other link.
func endError(l *link) error {
	switch l {
	case endExpired:
		return ErrExpired
	case endRefilled:
		return ErrRefilled
	case endReplaced:
		return ErrReplaced
	case endGone:
		return ErrGone
	case endStopped:
		return ErrStopped
	}
	return nil
}

var closed = func() chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}()

// wakeChannel returns a channel that is closed once the link has a successor. The writer looks for the channel after it
// has set next, and we look at next after we have set the channel, so at least one of us sees the other.
func (l *link) wakeChannel() <-chan struct{} {
	if l.next.Load() != nil {
		return closed
	}
	w := l.wake.Load()
	if w == nil {
		w = &wake{make(chan struct{})}
		if !l.wake.CompareAndSwap(nil, w) {
			w = l.wake.Load()
		}
	}
	if l.next.Load() != nil {
		return closed
	}
	return w.ch
}

// follow makes next the successor of l, which has none yet, and adds the channel to close to sleepers.
func (l *link) follow(next *link, sleepers *[]chan struct{}) {
	l.next.Store(next)
	if w := l.wake.Load(); w != nil {
		*sleepers = append(*sleepers, w.ch)
	}
}

// list is a run of links from the one before the window to the newest. Its owner's mutex guards base and tail.
type list struct {
	base, tail *link
}

func newList() list {
	l := new(link)
	return list{l, l}
}

func (l *list) push(e *Event, sleepers *[]chan struct{}) *link {
	next := new(link)
	next.event.Store(e)
	l.tail.follow(next, sleepers)
	l.tail = next
	return next
}

// shift removes the oldest link from the list. Cursors that stand before it find end.
func (l *list) shift(oldest, end *link) {
	l.base.next.Store(end)
	oldest.event.Store(nil)
	l.base = oldest
}
