package queue

import (
	"math"
	"time"

	"github.com/millrace/millrace/cause"
)

// AddAfter asks for key to be worked on once delay has passed, with priority
// 0. If the key has an earlier delay already, nothing changes.
func (q *Queue[K]) AddAfter(key K, delay time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	e := q.entryLocked(key)
	q.delayLocked(e, delay, e.later(cause.Cause{Timer: true}))
}

// AddBecauseAfter is AddAfter for a change: those that come until then are worked on together. Whatever wakes the key
// earlier has the change among its causes, too.
func (q *Queue[K]) AddBecauseAfter(key K, change cause.Change, delay time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	e := q.entryLocked(key)
	e.reasons().Add(change)
	q.delayLocked(e, delay, nil)
}

// RetryAfter is AddAfter for work that could not be done yet: it is no failure, and what caused it causes the next work
// on the key, whatever else wakes that.
func (q *Queue[K]) RetryAfter(key K, delay time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	e := q.entryLocked(key)
	q.delayLocked(e, delay, e.later(cause.Cause{Retry: true}))
}

// AddRateLimited asks for key to be worked on again after a failure: after a
// delay that doubles with each failure since the last Forget, and not before the
// bucket of all retries has a token. The retry has the priority of the work
// that failed.
func (q *Queue[K]) AddRateLimited(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	e := q.entryLocked(key)
	delay := q.backoff(e.failures)
	if e.failures == 0 {
		e.failing = q.now()
	}
	e.failures++
	q.counters.Retried()
	by := e.later(cause.Cause{Retry: true})
	// If an earlier retry is already waiting, this one is not needed and must not use a token.
	if e.delayed != absent && q.delayed.slots[e.delayed].rank <= q.now()+int64(delay) {
		e.then = by
		return
	}
	if q.bucket != nil {
		delay = max(delay, q.bucket.Reserve().Delay())
	}
	q.delayLocked(e, delay, by)
}

// NumRequeues is the number of failures of key since the last Forget.
func (q *Queue[K]) NumRequeues(key K) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries[key]; e != nil {
		return e.failures
	}
	return 0
}

// Failing is the number of failures of key since the last Forget, and how long ago the first of them was.
func (q *Queue[K]) Failing(key K) (times int, lasted time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries[key]; e != nil && e.failures > 0 {
		return e.failures, time.Duration(q.now() - e.failing)
	}
	return 0, 0
}

// Forget ends a series of failures: the next one counts as the first. It cancels no pending request.
func (q *Queue[K]) Forget(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries[key]; e != nil {
		e.failures = 0
		q.releaseLocked(e)
	}
}

func (q *Queue[K]) backoff(failures int) time.Duration {
	delay := float64(q.opts.BaseDelay) * math.Pow(2, float64(failures))
	if delay > float64(q.opts.MaxDelay) {
		return q.opts.MaxDelay
	}
	return time.Duration(delay)
}

func (q *Queue[K]) delayLocked(e *entry[K], delay time.Duration, by *cause.Cause) {
	now := q.now()
	priority := 0
	if e.working != absent {
		priority = e.taken
	}
	if delay <= 0 {
		e.because(by)
		q.wantLocked(e, priority)
		return
	}
	due := now + int64(delay)
	if due < now { // overflow: a delay of centuries
		due = math.MaxInt64
	}
	switch {
	case e.delayed == absent:
		e.then, e.after = by, priority
		q.sleeps++
		q.delayed.push(slot[*entry[K]]{due, q.sleeps, e})
	case due < q.delayed.slots[e.delayed].rank:
		if by != nil {
			e.then = by
		}
		e.after = max(e.after, priority)
		q.delayed.promote(e.delayed, due)
	default:
		return
	}
	if e.delayed == 0 {
		q.setAlarmLocked(time.Duration(due - now))
	}
}

func (q *Queue[K]) setAlarmLocked(in time.Duration) {
	if q.alarm == nil {
		q.alarm = time.AfterFunc(in, q.ring)
		return
	}
	q.alarm.Reset(in)
}

// ring makes the due keys ready. It may run late or without need, because a timer may fire while it is being reset.
func (q *Queue[K]) ring() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	for q.delayed.len() > 0 {
		if first := q.delayed.slots[0].rank; first > now {
			q.setAlarmLocked(time.Duration(first - now))
			return
		}
		e := q.delayed.pop()
		e.because(e.then)
		e.then = nil
		q.wantLocked(e, e.after)
	}
}
