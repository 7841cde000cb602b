package memory

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

// Create implements store.Store.
func (s *Store) Create(ctx context.Context, key string, value []byte, ttl time.Duration, conditions ...store.Condition) (store.Revision, error) {
	rev, err := s.create(ctx, key, value, ttl, conditions)
	if err != nil {
		return 0, fmt.Errorf("create %s: %w", key, err)
	}
	return rev, nil
}

func (s *Store) create(ctx context.Context, key string, value []byte, ttl time.Duration, conditions []store.Condition) (store.Revision, error) {
	value, err := s.admit(ctx, value)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkCreateLocked(key, conditions); err != nil {
		return 0, err
	}
	return s.putLocked(key, value, Place{}, ttl), nil
}

// Update implements store.Store.
func (s *Store) Update(ctx context.Context, key string, value []byte, expect store.Revision, ttl time.Duration) (store.Revision, error) {
	rev, err := s.update(ctx, key, value, expect, ttl)
	if err != nil {
		return 0, fmt.Errorf("update %s: %w", key, err)
	}
	return rev, nil
}

func (s *Store) update(ctx context.Context, key string, value []byte, expect store.Revision, ttl time.Duration) (store.Revision, error) {
	value, err := s.admit(ctx, value)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.expectLocked(key, expect)
	if err != nil {
		return 0, s.conflict(err, old)
	}
	return s.putLocked(old.key, value, Place{}, ttl), nil
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, key string, expect store.Revision) (store.Revision, error) {
	rev, err := s.delete(ctx, key, expect)
	if err != nil {
		return 0, fmt.Errorf("delete %s: %w", key, err)
	}
	return rev, nil
}

func (s *Store) delete(ctx context.Context, key string, expect store.Revision) (store.Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, err := s.expectLocked(key, expect); err != nil {
		return 0, s.conflict(err, old)
	}
	return s.removeLocked(key), nil
}

// admit makes the checks that need no lock and copies the value, because the caller may reuse its buffer.
func (s *Store) admit(ctx context.Context, value []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(value) > s.options.MaxValueBytes {
		return nil, fmt.Errorf("%d bytes, at most %d: %w", len(value), s.options.MaxValueBytes, store.ErrTooLarge)
	}
	return bytes.Clone(value), nil
}

// conflict adds the entry that was found to a conflict. Update and Delete call it with the lock: values that they have
// written are in memory.
func (s *Store) conflict(err error, found *item) error {
	conflict, ok := err.(*store.ConflictError)
	if !ok {
		return err
	}
	var failed error
	if conflict.Current, failed = s.entry(found); failed != nil {
		return failed
	}
	return conflict
}

// expectLocked finds a key and checks that its revision is the given one. A conflict has the item that was found, and
// lacks the entry.
func (s *Store) expectLocked(key string, expect store.Revision) (*item, error) {
	if s.ended {
		return nil, store.ErrClosed
	}
	old, found := s.present.Get(key)
	if !found {
		return nil, store.ErrNotFound
	}
	if old.rev != expect {
		return old, &store.ConflictError{Key: key, Want: expect}
	}
	return old, nil
}

func (s *Store) putLocked(key string, value []byte, place Place, ttl time.Duration) store.Revision {
	now := newItem(key, value, s.history.newest()+1, place)
	before, _ := s.present.Set(key, now)
	s.bytes += now.size()
	s.recordLocked(&change{now: now, before: before})
	s.expiry.set(key, ttl, s.expire)
	return now.rev
}

func (s *Store) removeLocked(key string) store.Revision {
	before, _ := s.present.Delete(key)
	now := &item{key: before.key, rev: s.history.newest() + 1}
	s.recordLocked(&change{now: now, before: before, deleted: true})
	s.expiry.set(key, 0, nil)
	return now.rev
}

func (s *Store) recordLocked(c *change) {
	if c.before != nil {
		s.bytes -= c.before.size()
	}
	s.view = nil
	s.history.add(c)
	s.history.bound(s.options.HistoryEvents, s.options.HistoryBytes)
	s.past.forget(s.history.compacted)
	s.nudge.wake()
}
