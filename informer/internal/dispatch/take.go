package dispatch

import "time"

// waiting reports whether there is a change to pass on or a resync to do.
func (f *Follower[T]) waiting() bool {
	if f.resyncDue(time.Now()) {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.backlog.len() > 0 || f.cursor.next.Load() != nil
}

// next returns the next notice. If there is none it returns a channel that is closed when there may be one.
func (f *Follower[T]) next() (n Notice[T], ok bool, more <-chan struct{}) {
	if n, ok = f.take(); ok {
		return n, true, nil
	}
	more = f.owner.announced.Wait()
	n, ok = f.take()
	return n, ok, more
}

func (f *Follower[T]) take() (Notice[T], bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.backlog.len() == 0 {
		// Most followers keep up: they take one change at a time, each with the newest state of its object. That needs
		// no backlog.
		next := f.cursor.next.Load()
		if next == nil {
			return Notice[T]{}, false
		}
		if next.New == nil || !next.New.Superseded.Load() {
			f.cursor = next
			f.delivered.Add(1)
			return noticeOf(next), true
		}
	}
	f.drainLocked()
	return f.backlog.pop()
}

// merge moves the changes that wait for a busy follower into its backlog. Merged, they need less memory.
func (f *Follower[T]) merge() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cursor != nil {
		f.drainLocked()
	}
}

func (f *Follower[T]) drainLocked() {
	taken := uint64(0)
	for next := f.cursor.next.Load(); next != nil; next = next.next.Load() {
		f.backlog.add(next)
		f.cursor = next
		taken++
	}
	if taken > 0 {
		f.delivered.Add(taken)
	}
}
