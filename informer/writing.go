package informer

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/millrace/millrace/watch"
)

// gate is where items of a source become versions in a cache: T may be the item itself or what a projection makes of it.
type gate[I item, T any] struct {
	shared *Shared[T]
	part   *part
	admit  func(I) (*version[T], error)
}

// arrival collects the items of a list.
type arrival[I item, T any] struct {
	gate  *gate[I, T]
	table *table[T]
}

func (g *gate[I, T]) replace() intake[I] { return &arrival[I, T]{gate: g, table: newTable[T]()} }

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
		a.table.versions.Delete(v.key)
		return
	}
	if known := s.lookup(v.key); known != nil && s.same(known, v) {
		v = known
	}
	a.table.versions.Set(v.key, v)
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

func (s *Shared[T]) lookup(key Key) *version[T] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.get(key)
}

// flush tells those who wait what has been applied.
func (g *gate[I, T]) flush() { g.shared.announce() }

// set makes v the state of its object.
func (s *Shared[T]) set(p *part, v *version[T], position string) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if v.packed != nil && s.table.decodes() {
		s.hot.object(v, s.lookup(v.key)) // handlers are going to ask for what the indexes look at
	}
	s.table.describe(v) // may be slow; only writers touch the indexes, so no other lock is needed

	var steps chain[T]
	s.mu.Lock()
	old := s.table.get(v.key)
	if !s.isNewsLocked(p, v) || old != nil && s.same(old, v) {
		s.mu.Unlock()
		return
	}
	s.table.put(v)
	steps.set(old, v)
	s.recordLocked(p, &steps, position)
	s.mu.Unlock()
}

// drop removes an object whose last state is v.
func (s *Shared[T]) drop(p *part, last *version[T], position string) {
	s.writing.Lock()
	defer s.writing.Unlock()
	var steps chain[T]
	s.mu.Lock()
	if !s.isNewsLocked(p, last) {
		s.mu.Unlock()
		return
	}
	if old := s.table.remove(last.key); old != nil {
		steps.delete(old, last, false)
	}
	s.recordLocked(p, &steps, position)
	s.mu.Unlock()
}

// isNewsLocked tells an event from the repetition of one that a faulty connection delivers twice.
func (s *Shared[T]) isNewsLocked(p *part, v *version[T]) bool {
	reached := parseVersion(p.position)
	return v.rv == 0 || reached == 0 || v.rv >= reached
}

// move records that nothing has changed up to a position.
func (s *Shared[T]) move(p *part, position string) {
	s.mu.Lock()
	if parseVersion(position) >= parseVersion(p.position) {
		s.reachedLocked(p, position)
	}
	s.mu.Unlock()
	s.progress.raise()
}

// adopt makes a complete list a part of the cache, or all of it.
func (s *Shared[T]) adopt(p *part, list *table[T], position string) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	current := s.table.copied()
	s.mu.Unlock()

	// Nobody else can change the table meanwhile, so the work of many objects is done on the side.
	if p.divided {
		list.addOthers(current, p.namespace)
	}
	list.indexes = current.emptied().indexes
	list.fill(current)
	steps := differences(current, list)

	s.mu.Lock()
	s.table = list
	p.lastError = nil
	if s.HasSynced() {
		s.recordLocked(p, &steps, position)
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

// addOthers takes over what another table has outside of a namespace.
func (t *table[T]) addOthers(from *table[T], namespace string) {
	for v := range from.all() {
		if v.key.Namespace != namespace {
			t.versions.Set(v.key, v)
		}
	}
}

// fill puts all versions into the indexes. Those of the former table have their terms.
func (t *table[T]) fill(former *table[T]) {
	if len(t.indexes) == 0 {
		return
	}
	for v := range t.all() {
		if former.get(v.key) != v {
			t.describe(v)
		}
		for _, term := range v.terms {
			t.indexes[term.slot].set(term.value, v)
		}
	}
}

// differences returns the steps from one table to another.
func differences[T any](old, new *table[T]) chain[T] {
	var steps chain[T]
	for v := range old.all() {
		if new.get(v.key) == nil {
			steps.delete(v, v, true)
		}
	}
	for v := range new.all() {
		if before := old.get(v.key); before != v {
			steps.set(before, v)
		}
	}
	return steps
}

// recordLocked appends changes for the handlers.
func (s *Shared[T]) recordLocked(p *part, steps *chain[T], position string) {
	if position != "" {
		s.reachedLocked(p, position)
	}
	if steps.first == nil {
		return
	}
	s.tail.next.Store(steps.first)
	s.tail = steps.last
	s.count += uint64(steps.length)
	s.unannounced += uint64(steps.length)
}

// announce wakes those who wait for changes and takes over for handlers that are far behind.
func (s *Shared[T]) announce() {
	s.measure()
	s.progress.raise()
	s.mu.Lock()
	news := s.unannounced > 0
	s.lagging += s.unannounced
	s.unannounced = 0
	many := s.lagging >= laggingAfter
	if many {
		s.lagging = 0
	}
	s.mu.Unlock()
	if news {
		s.news.raise()
	}
	if many {
		s.catchUp()
	}
}

func (s *Shared[T]) measure() {
	if _, none := s.options.Metrics.(noMetrics); none {
		return
	}
	s.mu.RLock()
	position, objects := s.position, s.table.len()
	s.mu.RUnlock()
	s.options.Metrics.Moved(s.options.Name, parseVersion(position), objects)
}

func (s *Shared[T]) catchUp() {
	s.mu.RLock()
	limit := uint64(max(laggingAfter, s.table.len()))
	var behind []*Registration[T]
	for r := range s.handlers {
		if s.count-r.delivered.Load() > limit {
			behind = append(behind, r)
		}
	}
	s.mu.RUnlock()
	for _, r := range behind {
		r.catchUp()
	}
}

// same reports whether two versions of an object are the same. Test doubles do not always count versions, so equal
// numbers are not enough.
func (s *Shared[T]) same(a, b *version[T]) bool {
	if a.rv != b.rv || a.uid != b.uid || !bytes.Equal(a.packed, b.packed) {
		return false
	}
	return a.packed != nil || s.equal(a.plain, b.plain)
}

// newShared puts the parts together.
func newShared[T any](options Options[T]) *Shared[T] {
	options = options.withDefaults()
	if options.Name == "" {
		options.Name = fmt.Sprintf("%T", *new(T))
	}
	s := &Shared[T]{
		options: options, log: options.Logger.With("informer", options.Name),
		synced: make(chan struct{}), finished: make(chan struct{}),
		table: newTable[T](), tail: &change[T]{}, handlers: map[*Registration[T]]struct{}{}, batch: crewBatch,
	}
	s.crew.owner = s
	for name, values := range options.Indexes {
		s.table.addIndex(index[T]{name: name, values: s.indexer(values), decodes: true})
	}
	for _, path := range options.FieldIndexes {
		if err := s.AddFieldIndex(path); err != nil {
			panic(err) // the path is part of the program
		}
	}
	return s
}
