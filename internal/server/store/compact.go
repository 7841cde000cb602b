package store

import (
	"context"
	"errors"
	"time"
)

// RunCompaction compacts the store once in each interval, so that history older than interval is forgotten. It runs
// until ctx ends or the store is closed. An interval of zero means five minutes.
//
// Several servers may run it on one store. Each compacts only to a revision that it saw at least one interval ago, so
// no server loses history of its own last interval. If a compaction fails, the next one covers it.
//
// After a compaction, also one by another server, forgotten gets the revision before which the store keeps no states.
func RunCompaction(ctx context.Context, s Store, interval time.Duration, forgotten func(Revision)) error {
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
			if old != 0 && (err == nil || errors.Is(err, ErrCompacted)) {
				forgotten(old)
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
