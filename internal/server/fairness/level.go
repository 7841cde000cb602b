package fairness

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
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

// queuing is what a level's configuration says of requests that find no seat.
type queuing struct {
	exempt, reject      bool
	queues, hand, limit int
}

// Level is a priority level: seats, and queues for those that wait for one.
type Level struct {
	name  string
	turns *turns
	// held says that requests may be waiting only because their flow is saturated.
	held atomic.Bool

	mu      sync.Mutex // guards all below
	uid     types.UID
	queuing queuing
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
	saturated              []flow            // memory that is used again
	servers                map[string]*Level // of requests that other servers answer
}

// tally counts since the level is there.
type tally struct{ dispatched, rejected, timedOut, cancelled int }

func newLevel(name string, t *turns, now time.Time) *Level {
	return &Level{name: name, turns: t, seen: now}
}

// configure changes what the level has. Requests that wait stay where they are.
func (l *Level) configure(uid types.UID, q queuing, b bounds) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == 0 || l.bounds != b {
		l.current = b.nominal
	}
	l.uid, l.queuing, l.bounds, l.gone = uid, q, b, false
	for len(l.queues) < max(q.queues, 1) {
		l.queues = append(l.queues, &queue{})
	}
	l.trimLocked()
	for _, server := range l.servers {
		server.configure(uid, q, b)
	}
}

// of is the level itself or, for requests that another server answers, another one with as many seats and queues. Its
// seats are not lent: it gets those that the configuration names. Its lock is taken after that of the level.
func (l *Level) of(server string, now time.Time) *Level {
	if server == "" {
		return l
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.servers[server]
	if own == nil {
		if l.servers == nil {
			l.servers = map[string]*Level{}
		}
		own = newLevel(l.name, l.turns, now)
		own.configure(l.uid, l.queuing, l.bounds)
		l.servers[server] = own
	}
	return own
}

// trimLocked drops queues beyond those that the configuration has, once they are empty.
func (l *Level) trimLocked() {
	for n := len(l.queues); n > max(l.queuing.queues, 1) && !l.queues[n-1].active(); n-- {
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
	return l.queuing.exempt || l.inUse == 0 || l.inUse+w.most() <= l.current
}

// enter takes seats, or waits for them in a queue of the flow.
func (l *Level) enter(ctx context.Context, f flow, w Work, now time.Time, wait time.Duration, about Detail) (Execution, error) {
	s := f.schema
	l.mu.Lock()
	l.advanceLocked(now)
	q := l.queues[0]
	if n := l.queuing.queues; n > 1 && !l.queuing.exempt {
		q = l.queues[deal(f.number, l.queues[:n], l.queuing.hand)]
	}
	e := Execution{level: l, queue: q, schema: s, work: w, since: now}
	if l.waiting == 0 && l.fitsLocked(w) && !l.heldLocked(f, w) {
		if !q.active() {
			q.next = l.virtual
			l.activeQueues++
		}
		l.startLocked(q, f, w)
		l.mu.Unlock()
		return e, nil
	}
	if err := l.refuseLocked(q); err != nil {
		l.tally.rejected++
		l.mu.Unlock()
		return Execution{}, err
	}
	waiting := &waiter{
		schema: s, flow: f, work: w, queue: q, arrived: l.virtual, since: now, decided: make(chan struct{}), detail: about,
	}
	if !q.active() {
		q.next = l.virtual
		l.activeQueues++
	}
	q.waiting, q.waitingSeats = append(q.waiting, waiting), q.waitingSeats+w.most()
	l.waiting, l.waitingSeats = l.waiting+1, l.waitingSeats+w.most()
	s.waits(1, w)
	l.dispatchLocked()
	begun := waiting.begun
	l.mu.Unlock()
	if begun {
		s.waits(-1, w)
		return e, nil
	}
	return l.wait(ctx, waiting, wait)
}

// refuseLocked tells why a request may not even wait.
func (l *Level) refuseLocked(q *queue) error {
	switch {
	case l.queuing.reject:
		return errConcurrency
	case len(q.waiting) >= l.queuing.limit:
		return errQueueFull
	}
	return nil
}

// wait waits until the request is dispatched, or for its time to be over.
func (l *Level) wait(ctx context.Context, w *waiter, wait time.Duration) (Execution, error) {
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
		return Execution{level: l, queue: w.queue, schema: w.schema, work: w.work, since: now}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.begun { // at the same moment
		return Execution{level: l, queue: w.queue, schema: w.schema, work: w.work, since: now}, nil
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
	return Execution{}, why
}

// startLocked lets a request of a queue begin.
func (l *Level) startLocked(q *queue, f flow, w Work) {
	if w.Computes {
		l.turns.expect(f)
	}
	seats := w.most()
	q.executing, q.seats = q.executing+1, q.seats+seats
	q.next += w.cost(guess)
	l.executing, l.inUse = l.executing+1, l.inUse+seats
	l.tally.dispatched++
}

// heldLocked reports whether a request must wait because its flow is saturated.
func (l *Level) heldLocked(f flow, w Work) bool {
	if !w.Computes {
		return false
	}
	l.saturated = l.turns.saturated(l.saturated[:0])
	return slices.Contains(l.saturated, f)
}

// proceed lets requests begin that were held until one of their flow had its turn.
func (l *Level) proceed() {
	if !l.held.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advanceLocked(time.Now())
	l.dispatchLocked()
}

// dispatchLocked lets requests begin while there is room.
func (l *Level) dispatchLocked() {
	for l.waiting > 0 {
		l.held.Store(true) // before turns are looked at, so that whoever takes one later sees it
		l.saturated = l.turns.saturated(l.saturated[:0])
		if len(l.saturated) == 0 {
			l.held.Store(false)
		}
		w := l.pickLocked(l.saturated)
		if w == nil || !l.fitsLocked(w.work) {
			return
		}
		w.queue.remove(w)
		l.waiting, l.waitingSeats = l.waiting-1, l.waitingSeats-w.work.most()
		l.startLocked(w.queue, w.flow, w.work)
		w.begun = true
		close(w.decided)
	}
	l.held.Store(false)
}

// pickLocked is the request that would be done first in virtual time, of the first ones of all queues. Equal queues
// alternate. Flows that are saturated are passed over.
func (l *Level) pickLocked(saturated []flow) *waiter {
	var best *waiter
	var soonest float64
	at := l.lastPick
	for i := range l.queues {
		n := (l.lastPick + 1 + i) % len(l.queues)
		q := l.queues[n]
		first := q.first(saturated)
		if first == nil {
			continue
		}
		// A queue does not save up time in which it asked for nothing.
		q.next = max(q.next, first.arrived)
		if end := q.next + first.work.cost(guess); best == nil || end < soonest {
			best, soonest, at = first, end, n
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
