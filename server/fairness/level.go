package fairness

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Reasons for which requests are refused, as metrics name them.
var (
	errConcurrency = errors.New("concurrency-limit")
	errQueueFull   = errors.New("queue-full")
	errTimeOut     = errors.New("time-out")
	errCancelled   = errors.New("cancelled")
)

// shape is what a level's configuration says of its queues.
type shape struct {
	exempt, reject      bool
	queues, hand, limit int
}

// Level is a priority level: seats, and queues for those that wait for one.
type Level struct {
	name string

	mu      sync.Mutex // guards all below
	uid     types.UID
	shape   shape
	bounds  bounds
	current int // seats at present
	gone    bool
	queues  []*queue

	inUse, executing       int // seats, requests
	waiting, waitingSeats  int
	activeQueues, lastPick int
	virtual                float64   // in seconds
	seen                   time.Time // when virtual and demand were brought up to date
	demand                 demand
	tally                  tally
}

// tally counts since the level is there.
type tally struct{ dispatched, rejected, timedOut, cancelled int }

func newLevel(name string, now time.Time) *Level { return &Level{name: name, seen: now} }

// configure changes what the level has. Requests that wait stay where they are.
func (l *Level) configure(uid types.UID, s shape, b bounds) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == 0 || l.bounds != b {
		l.current = b.nominal
	}
	l.uid, l.shape, l.bounds, l.gone = uid, s, b, false
	for len(l.queues) < max(s.queues, 1) {
		l.queues = append(l.queues, &queue{})
	}
	l.trimLocked()
}

// trimLocked drops queues beyond those that the configuration has, once they are empty.
func (l *Level) trimLocked() {
	for n := len(l.queues); n > max(l.shape.queues, 1) && !l.queues[n-1].active(); n-- {
		l.queues = l.queues[:n-1]
	}
}

// advanceLocked brings virtual time and demand up to date. Virtual time goes as fast as each active queue is served.
func (l *Level) advanceLocked(now time.Time) {
	passed := now.Sub(l.seen).Seconds()
	if passed <= 0 {
		return
	}
	l.seen = now
	wanted := l.inUse + l.waitingSeats
	l.demand.add(float64(wanted), passed)
	if l.activeQueues > 0 {
		l.virtual += passed * float64(min(wanted, max(l.current, 1))) / float64(l.activeQueues)
	}
}

// fitsLocked tells whether there is room. What is wider than the level goes alone.
func (l *Level) fitsLocked(w Work) bool {
	return l.shape.exempt || l.inUse == 0 || l.inUse+w.most() <= l.current
}

// enter takes seats, or waits for them in a queue of the flow.
func (l *Level) enter(ctx context.Context, s *Schema, flow uint64, w Work, now time.Time, wait time.Duration, about Detail) (Place, error) {
	l.mu.Lock()
	l.advanceLocked(now)
	q := l.queues[0]
	if n := l.shape.queues; n > 1 && !l.shape.exempt {
		q = l.queues[deal(flow, l.queues[:n], l.shape.hand)]
	}
	if l.waiting == 0 && l.fitsLocked(w) {
		if !q.active() {
			q.next = l.virtual
			l.activeQueues++
		}
		l.startLocked(q, w)
		l.mu.Unlock()
		return Place{level: l, queue: q, schema: s, work: w, since: now}, nil
	}
	if err := l.refuseLocked(q); err != nil {
		l.tally.rejected++
		l.mu.Unlock()
		return Place{}, err
	}
	waiting := &waiter{schema: s, work: w, queue: q, arrived: l.virtual, since: now, decided: make(chan struct{}), detailed: about}
	if !q.active() {
		q.next = l.virtual
		l.activeQueues++
	}
	q.waiting, q.waitingSeats = append(q.waiting, waiting), q.waitingSeats+w.most()
	l.waiting, l.waitingSeats = l.waiting+1, l.waitingSeats+w.most()
	s.waits(1, w)
	l.dispatchLocked()
	l.mu.Unlock()
	return l.wait(ctx, waiting, wait)
}

// refuseLocked tells why a request may not even wait.
func (l *Level) refuseLocked(q *queue) error {
	switch {
	case l.shape.reject:
		return errConcurrency
	case len(q.waiting) >= l.shape.limit:
		return errQueueFull
	}
	return nil
}

// wait waits until the request is dispatched, or for its time to be over.
func (l *Level) wait(ctx context.Context, w *waiter, wait time.Duration) (Place, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var why error
	select {
	case <-w.decided:
	case <-timer.C:
		why = errTimeOut
	case <-ctx.Done():
		why = errCancelled
	}
	w.schema.waits(-1, w.work)
	now := time.Now()
	if why == nil {
		return Place{level: l, queue: w.queue, schema: w.schema, work: w.work, since: now}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.begun { // at the same moment
		return Place{level: l, queue: w.queue, schema: w.schema, work: w.work, since: now}, nil
	}
	l.advanceLocked(now)
	w.queue.remove(w)
	l.waiting, l.waitingSeats = l.waiting-1, l.waitingSeats-w.work.most()
	if !w.queue.active() {
		l.activeQueues--
	}
	if why == errTimeOut {
		l.tally.timedOut++
	} else {
		l.tally.cancelled++
	}
	l.tally.rejected++
	l.dispatchLocked() // it may have been the one that the others waited behind
	return Place{}, why
}

// startLocked lets a request of a queue begin.
func (l *Level) startLocked(q *queue, w Work) {
	seats := w.most()
	q.executing, q.seats = q.executing+1, q.seats+seats
	q.next += w.cost(guess)
	l.executing, l.inUse = l.executing+1, l.inUse+seats
	l.tally.dispatched++
}

// dispatchLocked lets requests begin while there is room.
func (l *Level) dispatchLocked() {
	for l.waiting > 0 {
		q := l.pickLocked()
		w := q.waiting[0]
		if !l.fitsLocked(w.work) {
			return
		}
		q.remove(w)
		l.waiting, l.waitingSeats = l.waiting-1, l.waitingSeats-w.work.most()
		l.startLocked(q, w.work)
		w.begun = true
		close(w.decided)
	}
}

// pickLocked is the queue whose first request would be done first in virtual time. Among equals queues take turns.
func (l *Level) pickLocked() *queue {
	var best *queue
	var soonest float64
	at := l.lastPick
	for i := range l.queues {
		n := (l.lastPick + 1 + i) % len(l.queues)
		q := l.queues[n]
		if len(q.waiting) == 0 {
			continue
		}
		first := q.waiting[0]
		// A queue does not save up time in which it asked for nothing.
		q.next = max(q.next, first.arrived)
		if end := q.next + first.work.cost(guess); best == nil || end < soonest {
			best, soonest, at = q, end, n
		}
	}
	l.lastPick = at
	return best
}

// leave gives seats back, and lets those go on that wait for them.
func (l *Level) leave(q *queue, seats int, done bool, correction float64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advanceLocked(now)
	l.inUse -= seats
	q.seats -= seats
	q.next += correction
	if done {
		l.executing--
		q.executing--
		if !q.active() {
			l.activeQueues--
		}
		l.trimLocked()
	}
	l.dispatchLocked()
}
