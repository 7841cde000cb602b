package registry

import "github.com/millrace/millrace/server/store"

// note remembers that this server has changed an object.
func (o *objects) note(rev store.Revision) {
	for {
		last := o.wrote.Load()
		if int64(rev) <= last || o.wrote.CompareAndSwap(last, int64(rev)) {
			return
		}
	}
}

// Wrote is the revision of the last change that this server has made to an object of the kind; zero if it has made none.
// It is known before the change is acknowledged: a caller that waits until it has seen that revision has seen all that was acknowledged.
func (s *Storage) Wrote() store.Revision { return store.Revision(s.wrote.Load()) }
