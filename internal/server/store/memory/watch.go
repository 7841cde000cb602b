package memory

import (
	"context"
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/server/store"
)

// A batch ends after this many events or bytes, so that a watcher that is far behind need not wait until all events are
// collected.
const (
	maxBatchEvents = 1000
	maxBatchBytes  = 4 << 20
)

// Watch implements store.Store.
func (s *Store) Watch(ctx context.Context, prefix string, after store.Revision, sink func(store.Batch) error) error {
	at, err := s.cursor(after)
	if err != nil {
		return fmt.Errorf("watch %s after %d: %w", prefix, after, err)
	}
	for {
		batch, last, err := s.collect(at, prefix)
		if err != nil {
			return fmt.Errorf("watch %s after %d: %w", prefix, at.now.rev, err)
		}
		if last == nil {
			return fmt.Errorf("watch %s after %d: %w", prefix, at.now.rev, store.ErrCompacted)
		}
		if err := s.alive(ctx); err != nil {
			return fmt.Errorf("watch %s: %w", prefix, err)
		}
		if err := sink(batch); err != nil {
			return err
		}
		at = last
		select {
		case <-s.nudge.after(at):
		case <-ctx.Done():
		case <-s.closed:
		}
	}
}

// cursor finds the place in the list right after a revision.
func (s *Store) cursor(after store.Revision) (*change, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case s.ended:
		return nil, store.ErrClosed
	case after == 0:
		return s.history.last(), nil
	case after > s.history.newest():
		return nil, fmt.Errorf("newest is %d: %w", s.history.newest(), store.ErrFuture)
	case after < s.history.floor():
		return nil, fmt.Errorf("oldest is %d: %w", s.history.floor(), store.ErrCompacted)
	}
	return s.history.at(after), nil
}

// collect returns the events below prefix after the cursor, and the cursor's new place, which is nil if it was cut off.
func (s *Store) collect(at *change, prefix string) (store.Batch, *change, error) {
	var batch store.Batch
	bytes := 0
	for len(batch.Events) < maxBatchEvents && bytes < maxBatchBytes {
		next := at.next.Load()
		if next == nil {
			break
		}
		if next == at {
			return store.Batch{}, nil, nil
		}
		at = next
		if strings.HasPrefix(at.now.key, prefix) {
			e := at.event()
			if !at.deleted {
				entry, err := s.entry(at.now) // it is in memory, unless it has just been forgotten
				if err != nil {
					return store.Batch{}, nil, err
				}
				e.Value = entry.Value
			}
			batch.Events = append(batch.Events, e)
			bytes += len(e.Value)
		}
	}
	batch.Revision = at.now.rev
	return batch, at, nil
}

func (s *Store) alive(ctx context.Context) error {
	select {
	case <-s.closed:
		return store.ErrClosed
	default:
		return ctx.Err()
	}
}
