// Package sleep waits for a while, or until a context ends.
package sleep

import (
	"context"
	"time"
)

// For waits for d. It returns false if ctx ends before.
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
