package informer

import (
	"bytes"
	"slices"

	"github.com/millrace/millrace/informer/internal/dispatch"
	"github.com/millrace/millrace/informer/internal/state"
	"github.com/millrace/millrace/watch"
)

// gate is where items of a source become versions in a cache: T may be the item itself or what a projection makes of it.
type gate[I item, T any] struct {
	shared *Shared[T]
	part   *part
	admit  func(I) (*state.Version[T], error)
}

// arrival collects the items of a list.
type arrival[I item, T any] struct {
	gate  *gate[I, T]
	table *state.Table[T]
}

func (g *gate[I, T]) replace() intake[I] { return &arrival[I, T]{gate: g, table: state.NewTable[T]()} }

// take keeps an item. One that the cache has already is not kept twice.
func (a *arrival[I, T]) take(event watch.Event[I]) {
	s := a.gate.shared
	v, err := a.gate.admit(event.Object)
	if err != nil {
		s.report(err)
	}
	if v == nil {
		return
	}
	if event.Type == watch.Deleted {
		a.table.RemoveAside(v.Key)
		return
	}
	if known := s.lookup(v.Key); known != nil && s.same(known, v) {
		v = known
	}
	a.table.PutAside(v)
}

func (a *arrival[I, T]) commit(position string) { a.gate.shared.adopt(a.gate.part, a.table, position) }

func (g *gate[I, T]) bookmark(position string) { g.shared.move(g.part, position) }

// apply makes one event of a watch part of the cache.
func (g *gate[I, T]) apply(kind watch.EventType, it I) {
	v, err := g.admit(it)
	if err != nil {
		g.shared.report(err)
	}
	if v == nil {
		return
	}
	if kind == watch.Deleted {
		g.shared.drop(g.part, v, it.GetResourceVersion())
	} else {
		g.shared.set(g.part, v, it.GetResourceVersion())
	}
}

func (s *Shared[T]) lookup(key Key) *state.Version[T] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.Get(key)
}

// flush tells those who wait what has been applied.
func (g *gate[I, T]) flush() { g.shared.announce() }

// set makes v the state of its object.
func (s *Shared[T]) set(p *part, v *state.Version[T], position string) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if v.Packed != nil && s.table.Decodes() {
		s.hot.Object(v, s.lookup(v.Key)) // handlers are going to ask for what the indexes look at
	}
	s.table.Describe(v) // may be slow; only writers touch the indexes, so no other lock is needed

	var changes dispatch.Changes[T]
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.table.Get(v.Key)
	if !s.isNewsLocked(p, v) || old != nil && s.same(old, v) {
		return
	}
	s.table.Put(v)
	changes.Set(old, v)
	s.recordLocked(p, &changes, position)
}

// drop removes an object whose last state is v.
func (s *Shared[T]) drop(p *part, last *state.Version[T], position string) {
	s.writing.Lock()
	defer s.writing.Unlock()
	var changes dispatch.Changes[T]
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isNewsLocked(p, last) {
		return
	}
	if old := s.table.Remove(last.Key); old != nil {
		changes.Delete(old, last, false)
	}
	s.recordLocked(p, &changes, position)
}

// isNewsLocked tells an event from the repetition of one that a faulty connection delivers twice.
func (s *Shared[T]) isNewsLocked(p *part, v *state.Version[T]) bool {
	reached := state.ParseRevision(p.position)
	return v.Revision == 0 || reached == 0 || v.Revision >= reached
}

// move records that nothing has changed up to a position.
func (s *Shared[T]) move(p *part, position string) {
	s.mu.Lock()
	if state.ParseRevision(position) >= state.ParseRevision(p.position) {
		s.reachedLocked(p, position)
	}
	s.mu.Unlock()
	s.progress.Raise()
}

// adopt makes a complete list a part of the cache, or all of it.
func (s *Shared[T]) adopt(p *part, list *state.Table[T], position string) {
	s.writing.Lock()
	defer s.writing.Unlock()
	current := s.copyTable(func() {})

	// Nobody else can change the table meanwhile, so the work of many objects is done without the lock.
	if p.divided {
		for v := range current.All() {
			if v.Key.Namespace != p.namespace {
				list.PutAside(v)
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

// recordLocked hands changes over to the handlers.
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

// supersede marks a version that is not the state of its object any more, if there is one.
func (s *Shared[T]) supersede(v *state.Version[T]) {
	switch {
	case v == nil:
	case s.hot == nil:
		v.Superseded.Store(true)
	default:
		s.hot.Supersede(v)
	}
}

// announce wakes those who wait for changes.
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

// same reports whether two versions of an object are the same. Test doubles do not always count versions, so equal
// numbers are not enough.
func (s *Shared[T]) same(a, b *state.Version[T]) bool {
	if a.Revision != b.Revision || a.UID != b.UID || !bytes.Equal(a.Packed, b.Packed) {
		return false
	}
	return a.Packed != nil || s.equal(a.Plain, b.Plain)
}
