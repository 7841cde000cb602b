package memory

import (
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/internal/server/store"
)

// change is one event and the link to the next. Only the link ever changes.
type change struct {
	now     *item
	before  *item // the previous value of the key; nil if the key did not exist
	deleted bool
	// next is nil at the end of the list. A change whose next is itself has been cut off: the changes after it may be
	// forgotten, and a cursor that stands on it cannot go on. So a slow cursor keeps no old changes in memory.
	next atomic.Pointer[change]
}

// event returns the event, without its value.
func (c *change) event() store.Event {
	if c.deleted {
		return store.Event{Type: store.Delete, Key: c.now.key, Revision: c.now.rev}
	}
	return store.Event{Type: store.Put, Key: c.now.key, Revision: c.now.rev}
}

// history is the list of remembered changes. Revisions are dense, so a revision can be used as an index.
type history struct {
	// changes[0] is the floor: its event is forgotten, and a cursor can start after it.
	changes []*change
	// compacted is the oldest revision whose state is still available.
	compacted store.Revision
	bytes     int64
}

func newHistory(first store.Revision) history {
	return history{changes: []*change{{now: &item{rev: first}}}, compacted: first}
}

func (h *history) floor() store.Revision  { return h.changes[0].now.rev }
func (h *history) newest() store.Revision { return h.last().now.rev }
func (h *history) last() *change          { return h.changes[len(h.changes)-1] }

// at returns the change of a revision between floor and newest.
func (h *history) at(rev store.Revision) *change { return h.changes[rev-h.floor()] }

func (h *history) add(c *change) {
	last := h.last()
	h.changes = append(h.changes, c)
	h.bytes += c.now.size()
	last.next.Store(c)
}

// minChanges are kept however large they are, so that a few huge values do not cut off a watch that keeps up.
const minChanges = 16

// bound forgets the oldest changes until both limits are met. The last minChanges are exempt from the limit of bytes.
func (h *history) bound(events int, bytes int64) {
	for len(h.changes) > events+1 || h.bytes > bytes && len(h.changes) > minChanges+1 {
		h.compact(h.floor() + 2)
	}
}

// compact forgets what is needed neither to read at rev and later, nor to watch from there.
func (h *history) compact(rev store.Revision) {
	n := int(rev - 1 - h.floor())
	for i := range n {
		h.bytes -= h.changes[i+1].now.size()
		h.changes[i+1].now.drop()
		h.changes[i].next.Store(h.changes[i])
		h.changes[i] = nil
	}
	if n > 0 {
		h.changes = h.changes[n:]
	}
	h.compacted = max(h.compacted, rev)
}

// nudge wakes the watches that wait for the list to grow. The channel exists only while a watch waits.
type nudge struct {
	mu      sync.Mutex
	changed chan struct{}
}

// after returns a channel that is closed once c has a successor.
func (n *nudge) after(c *change) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	changed := n.changed
	if c.next.Load() != nil {
		close(changed)
		n.changed = nil
	}
	return changed
}

func (n *nudge) wake() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}
