package worker

import (
	"cmp"
	"time"
)

// Backoff bounds how long something that keeps failing waits.
type Backoff struct{ Initial, Max time.Duration }

func (b Backoff) withDefaults() Backoff {
	return Backoff{cmp.Or(b.Initial, 10*time.Second), cmp.Or(b.Max, 5*time.Minute)}
}

// backoff is one series of failures.
type backoff struct {
	delay time.Duration
	since time.Time
}

// until is when the next attempt may be made. The first is free: a series has no delay before its first failure.
func (b backoff) until(failed time.Time) time.Time { return failed.Add(b.delay) }

// next is the series after another failure. Who did well for long enough begins anew.
func (b backoff) next(limits Backoff, failed time.Time) backoff {
	if b.delay == 0 || failed.Sub(b.since) > 2*limits.Max {
		return backoff{limits.Initial, failed}
	}
	return backoff{min(2*b.delay, limits.Max), failed}
}
