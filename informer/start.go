package informer

import (
	"iter"
	"time"
)

// laggingAfter is how many changes a handler may be behind, in an informer with few objects, before they are merged on
// its behalf.
const laggingAfter = 1024

// start gives a new handler its initial objects and its place in the changes.
func (r *Registration[T]) start() iter.Seq[*version[T]] {
	s := r.owner
	s.mu.Lock()
	defer s.mu.Unlock()
	initial := s.table.copied()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cursor = s.tail
	r.delivered.Store(s.count)
	return initial.all()
}

// resync puts a notice for each object into the backlog that has none.
func (r *Registration[T]) resync() {
	r.planResync(time.Now())
	snapshot := r.owner.Snapshot()
	r.mu.Lock()
	defer r.mu.Unlock()
	// The snapshot is not newer than what drains now, so an object without a notice is as the snapshot has it.
	r.drainLocked()
	for v := range snapshot.table.all() {
		if n, waiting := r.backlog.byKey[v.key]; waiting {
			n.resync = true
			continue
		}
		r.backlog.push(v.key, notice[T]{old: v, new: v, resync: true})
	}
}
