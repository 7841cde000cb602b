package worker

import (
	"cmp"
	"time"
)

// Backoff bounds the delay before a failed operation is tried again.
type Backoff struct{ Initial, Max time.Duration }

func (b Backoff) withDefaults() Backoff {
	return Backoff{cmp.Or(b.Initial, 10*time.Second), cmp.Or(b.Max, 5*time.Minute)}
}

// backoff is the state of one series of failures.
type backoff struct {
	delay time.Duration
	since time.Time
}

// until returns when the next attempt may be made. The first attempt has no delay.
func (b backoff) until(failed time.Time) time.Time { return failed.Add(b.delay) }

// next returns the series after one more failure. The series starts again at the initial delay if there was no failure
// for long enough.
func (b backoff) next(limits Backoff, failed time.Time) backoff {
	if b.delay == 0 || failed.Sub(b.since) > 2*limits.Max {
		return backoff{limits.Initial, failed}
	}
	return backoff{min(2*b.delay, limits.Max), failed}
}
