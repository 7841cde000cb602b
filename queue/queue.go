package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/millrace/millrace/cause"
)

// ErrShutDown is returned by Get once the queue is shut down and empty.
var ErrShutDown = errors.New("queue is shut down")

// MaxPriority is the highest priority, and -MaxPriority the lowest; values outside are clamped.
const MaxPriority = 10_000

// Queue hands out keys of type K. Make one with [New].
type Queue[K comparable] struct {
	opts     Options[K]
	bucket   *rate.Limiter // nil: no overall limit
	epoch    time.Time
	counters Counters

	mu      sync.Mutex // guards all below
	arrived sync.Cond  // something became ready, or the queue is shut down
	drained sync.Cond  // the queue is shut down and nothing is left
	entries map[K]*entry[K]
	spare   []*entry[K]
	ready   line[K]
	delayed heap[*entry[K]]
	sleeps  uint64 // how many delays there were, for their order
	working []*entry[K]
	alarm   *time.Timer // rings when the first delayed entry is due
	runs    int         // calls of Run that have not ended
	closed  bool
}

// New makes a queue.
func New[K comparable](opts Options[K]) *Queue[K] {
	q := &Queue[K]{
		opts:    opts.withDefaults(),
		epoch:   time.Now(),
		entries: map[K]*entry[K]{},
	}
	q.arrived.L, q.drained.L = &q.mu, &q.mu
	q.ready.rest.moved = func(e *entry[K], pos int) { e.ready = pos }
	q.delayed.moved = func(e *entry[K], pos int) { e.delayed = pos }
	if q.opts.RetryRate > 0 {
		q.bucket = rate.NewLimiter(rate.Limit(q.opts.RetryRate), q.opts.RetryBurst)
	}
	q.counters = q.opts.Metrics.Queue(q.opts.Name, q.State)
	return q
}

// now is the time since the queue was made, on the monotonic clock.
func (q *Queue[K]) now() int64 { return int64(time.Since(q.epoch)) }

// Add asks for key to be worked on, with priority 0.
func (q *Queue[K]) Add(key K) { q.AddPriority(key, 0) }

// AddPriority asks for key to be worked on. Higher priorities come first; of
// several requests for one key the highest priority counts.
func (q *Queue[K]) AddPriority(key K, priority int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.wantLocked(q.entryLocked(key), min(max(priority, -MaxPriority), MaxPriority))
}

// AddBecause asks for key to be worked on because of a change, with priority 0. The causes of all requests for a key
// since it was worked on last are in the context of the work that [Queue.Run] calls.
func (q *Queue[K]) AddBecause(key K, change cause.Change) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	e := q.entryLocked(key)
	e.reasons().Add(change)
	q.wantLocked(e, 0)
}

// AddSaying asks for key to be worked on because of something that is no change of an object, such as the end of a
// process, which is said in words. The priority is 0.
func (q *Queue[K]) AddSaying(key K, what string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	e := q.entryLocked(key)
	e.reasons().Told = what
	q.wantLocked(e, 0)
}

// Get waits for a key and takes it. The caller owns the key until it calls
// Done. Get fails with [ErrShutDown] when the queue is shut down and empty, and
// with the cause of ctx when that ends first.
func (q *Queue[K]) Get(ctx context.Context) (key K, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ready.len() == 0 && !q.closed {
		defer context.AfterFunc(ctx, q.wakeAll)()
	}
	for {
		switch {
		case ctx.Err() != nil:
			if q.ready.len() > 0 {
				q.arrived.Signal() // this call may have taken the signal for another waiter
			}
			return key, context.Cause(ctx)
		case q.ready.len() > 0:
			return q.takeLocked(), nil
		case q.closed:
			return key, ErrShutDown
		}
		q.arrived.Wait()
	}
}

func (q *Queue[K]) wakeAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.arrived.Broadcast()
	q.drained.Broadcast()
}

func (q *Queue[K]) takeLocked() K {
	e := q.ready.pop()
	e.taken, e.started = e.priority, q.now()
	e.take()
	e.working = len(q.working)
	q.working = append(q.working, e)
	q.counters.Taken(time.Duration(e.started - e.since))
	return e.key
}

// Done gives back a key that Get handed out. If it was added meanwhile it
// becomes ready again.
func (q *Queue[K]) Done(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	if e == nil || e.working == absent {
		return
	}
	last := len(q.working) - 1
	q.working[e.working] = q.working[last]
	q.working[e.working].working = e.working
	q.working[last] = nil
	q.working = q.working[:last]
	e.working, e.doing = absent, nil
	q.counters.Finished(time.Duration(q.now() - e.started))
	if e.again {
		q.readyLocked(e)
	}
	q.releaseLocked(e)
	if q.emptyLocked() {
		q.drained.Broadcast()
	}
}

// doing returns the causes of the work on a key.
func (q *Queue[K]) doing(key K) *cause.Cause {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries[key]; e != nil {
		return e.doing
	}
	return nil
}

// Len is the number of keys that are ready and wait for a worker.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ready.len()
}

// State reads what the queue holds now.
func (q *Queue[K]) State() State {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	s := State{Ready: q.ready.len(), Delayed: q.delayed.len(), Working: len(q.working)}
	if s.Delayed > 0 {
		s.Next = max(time.Duration(q.delayed.slots[0].rank-now), 0)
	}
	for _, e := range q.working {
		spent := time.Duration(now - e.started)
		s.Unfinished += spent
		s.Longest = max(s.Longest, spent)
	}
	return s
}
