package informer

import (
	"bytes"
	"slices"

	"github.com/millrace/millrace/informer/internal/dispatch"
	"github.com/millrace/millrace/informer/internal/state"
	"github.com/millrace/millrace/watch"
)

// cacheSink stores a source's items as versions in the cache. T is the type of the items or of their projections.
type cacheSink[I item, T any] struct {
	shared *Shared[T]
	part   *part
	admit  func(I) (*state.Version[T], error)
}

// cacheList collects the items of a list.
type cacheList[I item, T any] struct {
	sink  *cacheSink[I, T]
	table *state.Table[T]
}

func (c *cacheSink[I, T]) replace() listSink[I] {
	return &cacheList[I, T]{sink: c, table: state.NewTable[T]()}
}

// take stores an item. If the cache has the same version already, that one is kept.
func (a *cacheList[I, T]) take(event watch.Event[I]) {
	s := a.sink.shared
	v, err := a.sink.admit(event.Object)
	if err != nil {
		s.report(err)
	}
	if v == nil {
		return
	}
	if event.Type == watch.Deleted {
		a.table.RemoveUnindexed(v.Key)
		return
	}
	if known := s.lookup(v.Key); known != nil && s.same(known, v) {
		v = known
	}
	a.table.PutUnindexed(v)
}

func (a *cacheList[I, T]) commit(position string) {
	a.sink.shared.replacePart(a.sink.part, a.table, position)
}

func (c *cacheSink[I, T]) bookmark(position string) { c.shared.advance(c.part, position) }

// apply applies one event of a watch to the cache.
func (c *cacheSink[I, T]) apply(kind watch.EventType, it I) {
	v, err := c.admit(it)
	if err != nil {
		c.shared.report(err)
	}
	if v == nil {
		return
	}
	if kind == watch.Deleted {
		c.shared.remove(c.part, v, it.GetResourceVersion())
	} else {
		c.shared.set(c.part, v, it.GetResourceVersion())
	}
}

func (s *Shared[T]) lookup(key Key) *state.Version[T] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.Get(key)
}

// flush wakes handlers and WaitFor for what has been applied.
func (c *cacheSink[I, T]) flush() { c.shared.announce() }

// set makes v the state of its object.
func (s *Shared[T]) set(p *part, v *state.Version[T], position string) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if v.Packed != nil && s.table.Decodes() {
		s.hot.Object(v, s.lookup(v.Key)) // the handlers will need the decoded object too
	}
	s.table.Describe(v) // may be slow; only writers use the indexes, so no other lock is needed

	var changes dispatch.Changes[T]
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.table.Get(v.Key)
	if !s.isNewLocked(p, v) || old != nil && s.same(old, v) {
		return
	}
	s.table.Put(v)
	changes.Set(old, v)
	s.recordLocked(p, &changes, position)
}

// remove deletes an object whose last state is v.
func (s *Shared[T]) remove(p *part, last *state.Version[T], position string) {
	s.writing.Lock()
	defer s.writing.Unlock()
	var changes dispatch.Changes[T]
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isNewLocked(p, last) {
		return
	}
	if old := s.table.Remove(last.Key); old != nil {
		changes.Delete(old, last, false)
	}
	s.recordLocked(p, &changes, position)
}

// isNewLocked tells a new event from one that a faulty connection has delivered twice.
func (s *Shared[T]) isNewLocked(p *part, v *state.Version[T]) bool {
	reached := state.ParseRevision(p.position)
	return v.Revision == 0 || reached == 0 || v.Revision >= reached
}

// advance records that nothing has changed up to a position.
func (s *Shared[T]) advance(p *part, position string) {
	s.mu.Lock()
	if state.ParseRevision(position) >= state.ParseRevision(p.position) {
		s.reachedLocked(p, position)
	}
	s.mu.Unlock()
	s.progress.Raise()
}

// replacePart replaces a part of the cache, or all of it, by a complete list.
func (s *Shared[T]) replacePart(p *part, list *state.Table[T], position string) {
	s.writing.Lock()
	defer s.writing.Unlock()
	current := s.copyTable(func() {})

	// Only this goroutine can change the table now, so the work for many objects is done without mu.
	if p.divided {
		for v := range current.All() {
			if v.Key.Namespace != p.namespace {
				list.PutUnindexed(v)
			}
		}
	}
	list.AdoptIndexes(current)
	list.Fill(current)
	changes := differences(current, list)

	s.mu.Lock()
	s.table = list
	p.lastError = nil
	if s.HasSynced() {
		s.recordLocked(p, &changes, position)
		s.mu.Unlock()
		s.announce()
		return
	}
	s.reachedLocked(p, position)
	complete := !slices.ContainsFunc(s.parts, func(p *part) bool { return p.position == "" })
	s.mu.Unlock()
	if complete {
		close(s.synced)
	}
	s.announce()
}

// differences returns the changes from one table to another.
func differences[T any](old, new *state.Table[T]) dispatch.Changes[T] {
	var changes dispatch.Changes[T]
	for v := range old.All() {
		if new.Get(v.Key) == nil {
			changes.Delete(v, v, true)
		}
	}
	for v := range new.All() {
		if before := old.Get(v.Key); before != v {
			changes.Set(before, v)
		}
	}
	return changes
}

// recordLocked passes changes to the dispatcher.
func (s *Shared[T]) recordLocked(p *part, changes *dispatch.Changes[T], position string) {
	if position != "" {
		s.reachedLocked(p, position)
	}
	for change := changes.First; change != nil; change = change.Next() {
		s.supersede(change.Old)
		s.supersede(change.Last)
	}
	s.handlers.Record(changes)
}

// supersede marks a version, if not nil, as no longer its object's current state.
func (s *Shared[T]) supersede(v *state.Version[T]) {
	switch {
	case v == nil:
	case s.hot == nil:
		v.Superseded.Store(true)
	default:
		s.hot.Supersede(v)
	}
}

// announce wakes handlers and WaitFor.
func (s *Shared[T]) announce() {
	s.mu.RLock()
	position, objects := s.position, s.table.Len()
	s.mu.RUnlock()
	s.options.Metrics.Moved(s.options.Name, state.ParseRevision(position), objects)
	if s.hot != nil {
		s.hot.Sweep(maxSuperseded)
	}
	s.progress.Raise()
	s.handlers.Announce(objects)
}

// same reports whether two versions of an object are equal. Test doubles do not always increase resource versions, so
// equal numbers are not enough.
func (s *Shared[T]) same(a, b *state.Version[T]) bool {
	if a.Revision != b.Revision || a.UID != b.UID || !bytes.Equal(a.Packed, b.Packed) {
		return false
	}
	return a.Packed != nil || s.equal(a.Plain, b.Plain)
}
