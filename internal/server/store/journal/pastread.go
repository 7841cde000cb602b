package journal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
)

var _ store.Past = (*Store)(nil)

// pastView is the state of the keys with a prefix right after a revision.
type pastView struct {
	prefix  string
	rev     store.Revision
	entries []pastEntry // by key
}

type pastEntry struct {
	key   string
	rev   store.Revision
	place memory.Place
}

// pastViews holds the last few views that clients read in pages; the most recently used is last.
type pastViews struct {
	mu    sync.Mutex
	views []*pastView
}

const maxPastViews = 4

func (v *pastViews) find(prefix string, rev store.Revision) *pastView {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, one := range v.views {
		if one.rev == rev && one.prefix == prefix {
			return one
		}
	}
	return nil
}

// used keeps a view if more will be read from it, and forgets it otherwise.
func (v *pastViews) used(view *pastView, more bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.views = slices.DeleteFunc(v.views, func(other *pastView) bool { return other == view })
	if !more {
		return
	}
	if len(v.views) == maxPastViews {
		v.views = slices.Delete(v.views, 0, 1)
	}
	v.views = append(v.views, view)
}

// listPast is List for a revision that is not remembered in memory.
func (s *Store) listPast(ctx context.Context, prefix string, o store.ListOptions) (page store.Page, err error) {
	v := s.views.find(prefix, o.Revision)
	if v == nil {
		if v, err = s.viewPast(ctx, prefix, o.Revision); err != nil {
			return store.Page{}, fmt.Errorf("list %s at %d: %w", prefix, o.Revision, err)
		}
	}
	entries := v.entries[sort.Search(len(v.entries), func(i int) bool { return v.entries[i].key >= o.From }):]
	page = store.Page{Revision: v.rev}
	if o.Limit > 0 && len(entries) > o.Limit {
		page.More, page.Remaining = true, int64(len(entries)-o.Limit)
		entries = entries[:o.Limit]
	}
	s.views.used(v, page.More)
	places := make([]memory.Place, len(entries))
	page.Entries = make([]store.Entry, len(entries))
	for i, e := range entries {
		places[i], page.Entries[i] = e.place, store.Entry{Key: e.key, Revision: e.rev}
	}
	err = s.loadChanges(places, func(n int, c *change) {
		if page.Entries[n].Value = bytes.Clone(c.value); c.forgotten {
			page.Entries[n].Key = ""
		}
	})
	page.Entries = slices.DeleteFunc(page.Entries, func(e store.Entry) bool { return e.Key == "" })
	return page, err
}

// viewPast finds the state of the keys with a prefix right after a revision.
func (s *Store) viewPast(ctx context.Context, prefix string, rev store.Revision) (*pastView, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := s.decoder()
	defer s.decoders.Put(c)
	p := &s.past
	p.mu.RLock()
	base, archives, recent, first := p.baseOfLocked(rev), p.archives, p.recent, p.base
	oldest := p.oldestLocked()
	p.mu.RUnlock()
	if rev < oldest {
		return nil, fmt.Errorf("oldest is %d: %w", oldest, store.ErrCompacted)
	}
	after := store.Revision(1)
	if base != nil {
		after = base.revision
	}
	changed := make(map[string]pastEntry) // a deleted key has no place
	for _, a := range archives {
		if a.last <= after || a.first() > rev {
			continue
		}
		err := a.find(c, prefix, func(key string, changes []indexed) {
			n := sort.Search(len(changes), func(i int) bool { return changes[i].revision > rev })
			if n == 0 || changes[n-1].revision <= after {
				return
			}
			e := pastEntry{key: key, rev: changes[n-1].revision}
			if !changes[n-1].deleted {
				e.place = a.place(e.rev)
			}
			changed[key] = e
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range recent[:max(0, min(len(recent), int(rev-first)))] {
		if r := &recent[i]; first+store.Revision(i)+1 > after && strings.HasPrefix(r.key, prefix) {
			e := pastEntry{key: r.key, rev: first + store.Revision(i) + 1}
			if !r.deleted {
				e.place = r.place
			}
			changed[r.key] = e
		}
	}
	v := &pastView{prefix: prefix, rev: rev}
	for _, e := range changed {
		if e.place.File != nil {
			v.entries = append(v.entries, e)
		}
	}
	if base != nil {
		if err := v.addUnchanged(c, base, changed); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(v.entries, func(a, b pastEntry) int { return strings.Compare(a.key, b.key) })
	return v, nil
}

// addUnchanged adds the entries of a snapshot that were not changed after it.
func (v *pastView) addUnchanged(c *codec, base *snapshotFile, changed map[string]pastEntry) error {
	return base.findKeys(c, base.source, v.prefix, func(number int, key string, changes []indexed) {
		if _, ok := changed[key]; !ok {
			v.entries = append(v.entries, pastEntry{key: key, rev: changes[0].revision, place: base.place(base.source, number)})
		}
	})
}

// recordAfter returns where the next change after a revision is.
func (p *past) recordAfter(rev store.Revision) (memory.Place, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	switch begins := p.beginsLocked(); {
	case rev < begins:
		return memory.Place{}, fmt.Errorf("oldest is %d: %w", begins, store.ErrCompacted)
	case rev >= p.reachedLocked():
		return memory.Place{}, fmt.Errorf("newest is %d: %w", p.reachedLocked(), store.ErrFuture)
	case rev >= p.base:
		return p.recent[rev-p.base].place, nil
	}
	i := sort.Search(len(p.archives), func(i int) bool { return p.archives[i].last > rev })
	return p.archives[i].place(rev + 1), nil
}

// A batch of the past has about this many changes or bytes.
const (
	pastEvents = 1000
	pastBytes  = 4 << 20
)

// watchPast passes the changes after a revision to sink, as far as they are over now.
func (s *Store) watchPast(ctx context.Context, prefix string, after store.Revision, sink func(store.Batch) error) error {
	until, err := s.state.Revision(ctx)
	if err != nil {
		return err
	}
	for after < until {
		b, err := s.batchAfter(ctx, prefix, after, until)
		if err != nil {
			return fmt.Errorf("watch %s after %d: %w", prefix, after, err)
		}
		if err := sink(b); err != nil {
			return err
		}
		after = b.Revision
	}
	return nil
}

// batchAfter returns the next changes after a revision.
func (s *Store) batchAfter(ctx context.Context, prefix string, after, until store.Revision) (store.Batch, error) {
	c := s.decoder()
	defer s.decoders.Put(c)
	b, size := store.Batch{Revision: after}, 0
	for b.Revision < until && len(b.Events) < pastEvents && size < pastBytes {
		if err := s.alive(ctx); err != nil {
			return b, err
		}
		at, err := s.past.recordAfter(b.Revision)
		if err != nil {
			return b, err
		}
		all, err := c.readAt(at)
		if err == nil && int(at.Index) >= len(all) {
			err = fmt.Errorf("%w: it has no change %d", errBroken, at.Index)
		}
		if err != nil {
			return b, err
		}
		for i := int(at.Index); i < len(all) && b.Revision < until; i++ {
			if b.Revision = all[i].revision; strings.HasPrefix(all[i].key, prefix) && !all[i].forgotten {
				b.Events = append(b.Events, all[i].event())
				size += len(all[i].value)
			}
		}
	}
	return b, nil
}

// alive returns why a reader of the past has to end.
func (s *Store) alive(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.ended, store.ErrClosed) {
		return s.ended
	}
	return ctx.Err()
}

// event returns a change as an event, with a value of its own.
func (c *change) event() store.Event {
	if c.deleted {
		return store.Event{Type: store.Delete, Key: c.key, Revision: c.revision}
	}
	return store.Event{Type: store.Put, Key: c.key, Value: bytes.Clone(c.value), Revision: c.revision}
}

// Oldest implements store.Past.
func (s *Store) Oldest() store.Revision {
	if !s.keepsPast() {
		return 0
	}
	return s.past.oldest()
}

// Changes implements store.Past.
func (s *Store) Changes(ctx context.Context, q store.ChangeQuery) ([]store.Change, error) {
	if err := s.alive(ctx); err != nil {
		return nil, err
	}
	found, err := s.findChanges(q)
	if err != nil {
		return nil, fmt.Errorf("changes of %s: %w", q.Key, err)
	}
	places, all := make([]memory.Place, len(found)), make([]store.Change, len(found))
	for i, e := range found {
		places[i] = e.place
	}
	err = s.loadChanges(places, func(n int, c *change) {
		all[n] = c.kept()
	})
	return all, err
}

// Next implements store.Past. It reads one record of the log.
func (s *Store) Next(ctx context.Context, after store.Revision, limit int) ([]store.Change, error) {
	if err := s.alive(ctx); err != nil {
		return nil, err
	}
	at, err := s.past.recordAfter(after)
	if errors.Is(err, store.ErrFuture) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the change after %d: %w", after, err)
	}
	c := s.decoder()
	defer s.decoders.Put(c)
	all, err := c.readAt(at)
	if err == nil && int(at.Index) >= len(all) {
		err = fmt.Errorf("%w: it has no change %d", errBroken, at.Index)
	}
	if err != nil {
		return nil, err
	}
	all = all[at.Index:]
	next := make([]store.Change, min(len(all), limit))
	for i := range next {
		next[i] = all[i].kept()
	}
	return next, nil
}

// kept returns a change as it is passed on, with a value of its own.
func (c *change) kept() store.Change {
	return store.Change{Event: c.event(), Created: c.created, Forgotten: c.forgotten, Time: c.time, Note: bytes.Clone(c.note)}
}

// findChanges finds the changes that a query asks for, from the newest archive to the oldest.
func (s *Store) findChanges(q store.ChangeQuery) (found []pastEntry, err error) {
	c := s.decoder()
	defer s.decoders.Put(c)
	p := &s.past
	p.mu.RLock()
	archives, recent, base := p.archives, p.recent, p.base
	p.mu.RUnlock()
	wanted := func(key string, rev store.Revision) bool {
		return rev > q.After && (q.Until == 0 || rev <= q.Until) && strings.HasPrefix(key, q.Key) && (q.Below || key == q.Key)
	}
	for i := range recent {
		if r := &recent[i]; wanted(r.key, base+store.Revision(i)+1) {
			found = append(found, pastEntry{r.key, base + store.Revision(i) + 1, r.place})
		}
	}
	for _, a := range slices.Backward(archives) {
		if q.Limit > 0 && len(found) >= q.Limit || a.last <= q.After {
			break
		}
		if q.Until > 0 && a.first() > q.Until {
			continue
		}
		err := a.find(c, q.Key, func(key string, changes []indexed) {
			for _, one := range changes {
				if wanted(key, one.revision) {
					found = append(found, pastEntry{key, one.revision, a.place(one.revision)})
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b pastEntry) int { return cmp.Compare(a.rev, b.rev) })
	if q.Limit > 0 && len(found) > q.Limit {
		found = found[len(found)-q.Limit:]
	}
	return found, nil
}

// RevisionAt implements store.Past.
func (s *Store) RevisionAt(ctx context.Context, at time.Time) (store.Revision, error) {
	if err := s.alive(ctx); err != nil {
		return 0, err
	}
	rev, err := s.revisionAt(at.UnixMilli())
	if oldest := s.past.oldest(); err == nil && rev < oldest {
		err = fmt.Errorf("nothing is kept of that time, oldest is %d: %w", oldest, store.ErrCompacted)
	}
	return rev, err
}

// revisionAt returns the last revision at or before a time, in milliseconds, or zero.
func (s *Store) revisionAt(at int64) (store.Revision, error) {
	p := &s.past
	p.mu.RLock()
	archives, recent, base := p.archives, p.recent, p.base
	p.mu.RUnlock()
	if n := sort.Search(len(recent), func(i int) bool { return recent[i].time > at }); n > 0 {
		return base + store.Revision(n), nil
	}
	n := sort.Search(len(archives), func(i int) bool { return milliseconds(archives[i].changes[0].time) > at })
	if n == 0 {
		return 0, nil
	}
	a := archives[n-1]
	n = sort.Search(len(a.changes), func(i int) bool { return milliseconds(a.changes[i].time) > at })
	all, err := s.changesAt(a.place(a.changes[n-1].revision))
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s: %w", a.name, errBroken)
	}
	if err != nil {
		return 0, err
	}
	last := sort.Search(len(all), func(i int) bool { return milliseconds(all[i].time) > at })
	return all[0].revision + store.Revision(last-1), nil
}

// changesAt reads all changes of a record. Their values are not valid.
func (s *Store) changesAt(at memory.Place) ([]change, error) {
	c := s.decoder()
	defer s.decoders.Put(c)
	return c.readAt(at)
}

// decoder returns a codec that only decodes; it goes back to decoders.
func (s *Store) decoder() *codec {
	if c, ok := s.decoders.Get().(*codec); ok {
		return c
	}
	return newDecoder()
}
