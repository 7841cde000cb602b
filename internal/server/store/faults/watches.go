package faults

import (
	"context"
	"errors"

	"github.com/millrace/millrace/internal/server/store"
)

// cutter ends one watch, with a reason.
type cutter struct{ cancel context.CancelCauseFunc }

// cutError marks the cause of a context that Cut has ended.
type cutError struct{ reason error }

func (e cutError) Error() string { return e.reason.Error() }

// Watch implements store.Store.
func (s *Store) Watch(ctx context.Context, prefix string, after store.Revision, sink func(store.Batch) error) error {
	if _, err := s.apply(ctx, Watch, prefix); err != nil {
		return err
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &cutter{cancel: cancel}
	s.mu.Lock()
	s.watches[c] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, c)
	}()

	err := s.inner.Watch(inner, prefix, after, func(b store.Batch) error {
		if err := s.mayDeliver(inner); err != nil {
			return err
		}
		return sink(b)
	})
	var cut cutError
	if errors.As(context.Cause(inner), &cut) {
		return cut.reason
	}
	return err
}

// Watches counts the running watches.
func (s *Store) Watches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watches)
}

// Cut ends all running watches with the given reason, such as store.ErrUnavailable or store.ErrCompacted. New watches
// are not affected.
func (s *Store) Cut(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.watches {
		c.cancel(cutError{reason})
	}
}

// Hold makes watches keep their events back until release is called; nothing is lost.
func (s *Store) Hold() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make(chan struct{})
	s.held = held
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.held == held {
			s.held = nil
		}
		close(held)
	}
}

func (s *Store) mayDeliver(ctx context.Context) error {
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	if held == nil {
		return ctx.Err()
	}
	select {
	case <-held:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
