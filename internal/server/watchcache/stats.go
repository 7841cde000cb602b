package watchcache

import "github.com/millrace/millrace/internal/server/store"

// Stats are a cache's counters, for metrics.
type Stats struct {
	Revision store.Revision
	// Refills counts the fills after the first one. Resumes counts how often a lost log was resumed.
	Refills, Resumes int64
	// Batches counts the batches of the log, including progress reports.
	Batches int64
	// Forms and FormBytes are the number and the bytes of the forms that are kept.
	Forms, FormBytes int
}

// Stats returns the cache's counters.
func (c *Cache) Stats() Stats {
	bytes, count := c.forms.usage()
	return Stats{
		Revision: c.Revision(), Refills: c.refills.Load(), Resumes: c.resumes.Load(), Batches: c.batches.Load(),
		Forms: count, FormBytes: bytes,
	}
}

// KindStats are a kind's counters, for metrics.
type KindStats struct {
	Objects int
	// Events counts all changes since the kind was added.
	Events int64
	// WindowEvents and WindowBytes are the history's size. Oldest is the oldest revision from which a cursor may start.
	WindowEvents, WindowBytes int
	Oldest                    store.Revision
	// Cursors is the number of open cursors, Topics that of topics with a list of their own.
	Cursors, Topics int
	// Unreadable counts the versions that could not be read, UnreadableNow the objects that cannot be.
	Unreadable    int64
	UnreadableNow int
}

// Stats returns the kind's counters.
func (k *Kind) Stats() KindStats {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := KindStats{
		Objects: k.state.len(), Events: k.events.Load(), Cursors: int(k.cursors.Load()), Unreadable: k.unreadableCount.Load(),
		UnreadableNow: len(k.unreadable),
	}
	if h := k.history; h != nil {
		s.WindowEvents, s.WindowBytes, s.Oldest = h.window.len(), h.bytes, h.since
		s.Topics = len(h.topicLists.byTopic)
	}
	return s
}
