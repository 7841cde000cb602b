package watchcache

import "github.com/millrace/millrace/server/store"

// Stats are a cache's figures, for metrics.
type Stats struct {
	Revision store.Revision
	// Refills counts the fills after the first one, Resumes how often the log was lost and went on where it was.
	Refills, Resumes int64
	// Batches counts what the log delivered, reports of progress included.
	Batches int64
	// Forms and FormBytes tell how many wire forms are kept.
	Forms, FormBytes int
}

// Stats returns the cache's figures.
func (c *Cache) Stats() Stats {
	bytes, count := c.forms.usage()
	return Stats{
		Revision: c.Revision(), Refills: c.refills.Load(), Resumes: c.resumes.Load(), Batches: c.batches.Load(),
		Forms: count, FormBytes: bytes,
	}
}

// KindStats are a kind's figures, for metrics.
type KindStats struct {
	Objects int
	// Events counts all changes since the kind was added.
	Events int64
	// WindowEvents and WindowBytes are the history's size, Oldest the oldest revision that a cursor may start from.
	WindowEvents, WindowBytes int
	Oldest                    store.Revision
	// Cursors counts the open ones, Topics the lists that some of them have to themselves.
	Cursors, Topics int
	// Unreadable counts the versions whose attributes could not be read.
	Unreadable int64
}

// Stats returns the kind's figures.
func (k *Kind) Stats() KindStats {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := KindStats{
		Objects: k.state.len(), Events: k.events.Load(), Cursors: int(k.cursors.Load()), Unreadable: k.complaints.Load(),
	}
	if h := k.history; h != nil {
		s.WindowEvents, s.WindowBytes, s.Oldest = h.window.len(), h.bytes, h.since
		s.Topics = len(h.threads.byTopic)
	}
	return s
}
