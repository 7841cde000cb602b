package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

// What follows is for a store that makes changes durable before anybody sees them, and keeps its state here: it decides
// by Check, writes the change down, and lets Apply show it. Between the two nothing else may change the state.

// Change is a change of one key.
type Change struct {
	Key     string
	Value   []byte
	Deleted bool
	Expires time.Time // zero: never
	Place   Place
}

// CheckCreate returns the error that Create would return for a key.
func (s *Store) CheckCreate(key string, conditions []store.Condition) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.checkCreateLocked(key, conditions)
}

func (s *Store) checkCreateLocked(key string, conditions []store.Condition) error {
	if s.ended {
		return store.ErrClosed
	}
	if _, found := s.present.Get(key); found {
		return store.ErrExists
	}
	for _, c := range conditions {
		if i, found := s.present.Get(c.Key); !found || i.rev != c.Revision {
			return fmt.Errorf("%s at %d: %w", c.Key, c.Revision, store.ErrCondition)
		}
	}
	return nil
}

// CheckExpected returns the error that Update and Delete would return for a key.
func (s *Store) CheckExpected(key string, expect store.Revision) error {
	s.mu.RLock()
	old, err := s.expectLocked(key, expect)
	s.mu.RUnlock()
	return s.conflict(err, old)
}

// Apply makes changes that have been checked, each under the next revision. It keeps the values. A key that is deleted
// must be there.
func (s *Store) Apply(changes []Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		if !c.Deleted {
			s.putLocked(c.Key, c.Value, c.Place, timeToLive(c.Expires))
			continue
		}
		if _, found := s.present.Get(c.Key); !found {
			return fmt.Errorf("delete %s: %w", c.Key, store.ErrNotFound)
		}
		s.removeLocked(c.Key)
	}
	return nil
}

func timeToLive(expires time.Time) time.Duration {
	if expires.IsZero() {
		return 0
	}
	return max(time.Until(expires), 1)
}

// Restored is an entry of a state that is restored. Its value is at a place.
type Restored struct {
	Key      string
	Revision store.Revision
	Bytes    int // of the value
	Expires  time.Time
	Place    Place
}

// Restore puts entries into a new store, before anybody uses it, and sets its revision.
func (s *Store) Restore(entries []Restored, rev store.Revision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		i := &item{key: e.Key, rev: e.Revision}
		i.held.Store(&held{length: e.Bytes, place: e.Place})
		s.present.Set(e.Key, i)
		s.bytes += i.size()
		s.expiry.set(e.Key, timeToLive(e.Expires), s.expire)
	}
	s.view = nil
	s.history = newHistory(rev)
}

// Expiring calls visit for all entries that expire, with the time at which they do.
func (s *Store) Expiring(visit func(key string, at time.Time)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for key, e := range s.expiry.byKey {
		visit(key, e.at)
	}
}

// MaxValueBytes returns the size of the largest value.
func (s *Store) MaxValueBytes() int { return s.options.MaxValueBytes }

// Each calls begin with the present revision, and then visit for the entries of its state by ascending key, until one
// returns an error. Nobody waits for it.
func (s *Store) Each(ctx context.Context, begin func(store.Revision) error, visit func(store.Entry, Ref) error) error {
	v, err := s.viewAt(ctx, 0)
	if err != nil {
		return err
	}
	if err := begin(v.rev); err != nil {
		return err
	}
	var refs []Ref
	var found entries
	flush := func() error {
		all, err := s.complete(found)
		for n := 0; n < len(all) && err == nil; n++ {
			err = visit(all[n], refs[n])
		}
		found, refs = entries{}, refs[:0]
		return err
	}
	v.tree.Ascend("", func(i *item) bool {
		refs = append(refs, Ref{i})
		if found.add(i); len(refs) == eachEntries {
			if err = ctx.Err(); err == nil {
				err = flush()
			}
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// eachEntries is how many entries Each reads together.
const eachEntries = 256
