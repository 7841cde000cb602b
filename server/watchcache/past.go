package watchcache

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/server/store"
)

// pastKept is how many states of the past a kind remembers. The pages of a list ask for the same one again and again.
const pastKept = 4

// past is the states that were asked for, the last one first. It keeps no object alive that the window does not.
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

// SnapshotAt returns the state right after rev, which must be inside the window. It is made of the newest state, or of
// one that was asked for before, by taking back what happened since: that takes as long as there were events, and holds
// no lock.
func (k *Kind) SnapshotAt(rev store.Revision) (Snapshot, error) {
	s, h, at, err := k.startBack(rev)
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

// startBack finds the oldest known state that is not older than rev, and the link right before the first event to take
// back; no link if the state is the one that was asked for.
func (k *Kind) startBack(rev store.Revision) (Snapshot, *history, *link, error) {
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
	case rev < h.since:
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

// undo takes the events after the link at, up to the revision upTo, back from a state. It fails if they leave the window
// meanwhile.
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
