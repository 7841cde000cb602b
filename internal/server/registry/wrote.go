package registry

import "github.com/millrace/millrace/internal/server/store"

// note records that this server has changed an object.
func (o *objects) note(rev store.Revision) {
	for {
		last := o.wrote.Load()
		if int64(rev) <= last || o.wrote.CompareAndSwap(last, int64(rev)) {
			return
		}
	}
}

// forgetWrites forgets what this server has written: the store was restored to a state before that.
func (r *Registry) forgetWrites() {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, o := range r.objects {
		o.wrote.Store(0)
		o.recent.forget()
	}
	r.stalledAt.Store(0)
}

// Wrote returns the revision of the last change of the kind that this server has made, or zero. It is set before the
// change is acknowledged: a caller that waits until it has seen that revision has seen every change that this server
// has acknowledged.
func (s *Storage) Wrote() store.Revision { return store.Revision(s.wrote.Load()) }
