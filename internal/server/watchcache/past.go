package watchcache

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/server/store"
)

// pastKept is how many past states a kind remembers: a client that lists in pages asks for the same state again and
// again.
const pastKept = 4

// past are the states that were requested, the most recent first. It keeps no object alive that has left the window.
type past []Snapshot

func (p past) at(rev store.Revision) (Snapshot, bool) {
	for _, s := range p {
		if s.rev == rev {
			return s, true
		}
	}
	return Snapshot{}, false
}

func (p *past) add(s Snapshot) {
	if len(*p) == pastKept {
		*p = (*p)[:pastKept-1]
	}
	*p = slices.Insert(*p, 0, s)
}

func (p *past) forgetBefore(since store.Revision) {
	*p = slices.DeleteFunc(*p, func(s Snapshot) bool { return s.rev < since })
}

// Compacted tells the cache that the store keeps no states from before rev. SnapshotAt then refuses them, even if the
// window reaches back to them: the answer must not depend on which server a client asks. Watches are not affected.
func (c *Cache) Compacted(rev store.Revision) {
	for {
		have := c.compacted.Load()
		if int64(rev) <= have || c.compacted.CompareAndSwap(have, int64(rev)) {
			return
		}
	}
}

// SnapshotAt returns the state right after rev, which must be inside the window. It starts with the newest state, or
// with a remembered one, and undoes the later events. That takes time in proportion to their number, and holds no lock.
func (k *Kind) SnapshotAt(rev store.Revision) (Snapshot, error) {
	s, h, at, err := k.nearestState(rev)
	if err != nil {
		return Snapshot{}, fmt.Errorf("%s at %d: %w", k.options.Name, rev, err)
	}
	if at == nil {
		return s, nil
	}
	state, ok := undo(*s.state, at, s.rev)
	if !ok {
		return Snapshot{}, fmt.Errorf("%s at %d: %w", k.options.Name, rev, ErrExpired)
	}
	s = Snapshot{state: &state, rev: rev}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.past.at(rev); !known && k.history == h && rev >= h.since {
		k.past.add(s)
	}
	return s, nil
}

// nearestState returns the oldest known state that is not older than rev, and the link before the first event to undo;
// the link is nil if the state is the requested one.
func (k *Kind) nearestState(rev store.Revision) (Snapshot, *history, *link, error) {
	reached := k.cache.Revision()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.servingLocked(); err != nil {
		return Snapshot{}, nil, nil, err
	}
	s, h := k.snapshotLocked(reached), k.history
	switch {
	case rev > s.rev:
		return Snapshot{}, nil, nil, ErrFuture
	case rev < h.since, rev < store.Revision(k.cache.compacted.Load()):
		return Snapshot{}, nil, nil, ErrExpired
	case rev >= h.last:
		s.rev = rev
		return s, h, nil, nil
	}
	for _, p := range k.past {
		if p.rev == rev {
			return p, h, nil, nil
		}
		if p.rev > rev && p.rev < s.rev {
			s = p
		}
	}
	return s, h, h.afterLocked(rev), nil
}

// undo reverts the events after the link at, up to the revision upTo. It fails if they leave the window meanwhile.
func undo(state tree, at *link, upTo store.Revision) (tree, bool) {
	var events []*Event
	for l := at.next.Load(); l != nil; l = l.next.Load() {
		e := l.event.Load()
		if e == nil {
			return tree{}, false
		}
		if e.Revision > upTo {
			break
		}
		events = append(events, e)
	}
	state = state.thaw()
	for _, e := range slices.Backward(events) {
		if e.Previous == nil {
			state.delete(e.Object.Key)
		} else {
			state.set(e.Previous.Key, e.Previous)
		}
	}
	return state.freeze(), true
}
