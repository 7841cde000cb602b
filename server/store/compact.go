package store

import (
	"context"
	"errors"
	"time"
)

// RunCompaction forgets history that is older than interval, once in each, until ctx ends or the store is closed. An
// interval of zero is five minutes.
//
// Several servers may do this on one cluster. None takes away what another one has seen within its last interval, and
// who comes second has the less to do; an attempt that fails is made up for by the next.
func RunCompaction(ctx context.Context, s Store, interval time.Duration) error {
	if interval <= 0 {
		interval = 5 * time.Minute
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var old Revision
	for {
		now, err := s.Revision(ctx)
		if errors.Is(err, ErrClosed) {
			return err
		}
		if err == nil {
			if old != 0 {
				err = s.Compact(ctx, old)
			}
			if errors.Is(err, ErrClosed) {
				return err
			}
			old = now
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
