package fairness

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// turnsPerProcessor is how many requests that only compute run at a time, for each processor.
	turnsPerProcessor = 2
	// longestTurn is after how long such a request no longer keeps others from running: it may be waiting for its
	// client.
	longestTurn = 2 * time.Millisecond
)

// turns lets few requests at a time use the processors. Seats alone do not do that: they are as many as there may be
// requests that wait for the store, and that many requests that compute at the same time would each take as long as all
// of them. Flows take turns, so that a request of a flow with few never waits behind the many of another. While there
// are others, a flow leaves one processor to them: on processors that are always busy, it takes up to ten milliseconds
// until Go even notices that a request has come.
//
// Requests that wait for a turn have seats already. A flow with many would so get all seats of its level; therefore its
// other requests wait for theirs while as many wait for a turn as can have one. Such a flow is called saturated.
type turns struct {
	most int // of all flows
	own  int // of a flow while there are others

	mu      sync.Mutex    // guards all below
	last    turnID        // the newest
	recent  [2]visit      // of the last two flows; the newest first
	running []runningTurn // in the order of their begin
	queues  []*turnQueue  // of the flows that wait; the first is next
	pending []pendingFlow // flows of which requests have seats, and no turn yet
	timer   *time.Timer
}

// turnID names the turn of a request; 0 is none.
type turnID uint64

// flow is requests that belong together.
type flow struct {
	schema *Schema
	number uint64
}

// visit is the last request of a flow.
type visit struct {
	flow flow
	at   time.Time
}

// remembered is how long after its last request a flow counts as one that is there.
const remembered = 100 * time.Millisecond

// runningTurn is a turn that has begun.
type runningTurn struct {
	turn  turnID
	flow  flow
	began time.Time
}

// turnQueue has the requests of a flow that wait for a turn.
type turnQueue struct {
	flow    flow
	waiting []*turnWaiter
}

// turnWaiter is a request that waits for a turn.
type turnWaiter struct {
	decided chan struct{} // closed when it may run
	turn    turnID
}

// pendingFlow says how many requests of a flow have a seat, and no turn yet.
type pendingFlow struct {
	flow flow
	n    int
}

func newTurns() *turns {
	n := runtime.GOMAXPROCS(0)
	return &turns{most: turnsPerProcessor * n, own: max(1, n-1)}
}

// expect notes that a request of a flow has a seat, and will take a turn.
func (t *turns) expect(f flow) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.pending {
		if t.pending[i].flow == f {
			t.pending[i].n++
			return
		}
	}
	t.pending = append(t.pending, pendingFlow{f, 1})
}

// notPendingLocked notes that one of those requests has its turn, or has given up.
func (t *turns) notPendingLocked(f flow) {
	for i := range t.pending {
		if t.pending[i].flow != f {
			continue
		}
		if t.pending[i].n--; t.pending[i].n == 0 {
			t.pending = slices.Delete(t.pending, i, i+1)
		}
		return
	}
}

// saturated adds to all the flows that have no use for another seat: as many of their requests wait for a turn as can
// have one.
func (t *turns) saturated(all []flow) []flow {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.pending {
		if p.n >= t.most {
			all = append(all, p.flow)
		}
	}
	return all
}

// take waits for a turn of a flow, or until ctx ends.
func (t *turns) take(ctx context.Context, f flow, now time.Time) turnID {
	t.mu.Lock()
	t.visitLocked(f, now)
	t.expireLocked(now)
	if t.queueLocked(f) == nil && t.mayBeginLocked(f, now) {
		defer t.mu.Unlock()
		return t.beginLocked(f, now)
	}
	w := &turnWaiter{decided: make(chan struct{})}
	t.waitLocked(f, w)
	t.armLocked(now)
	t.mu.Unlock()
	select {
	case <-w.decided:
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.turn == 0 {
		t.notPendingLocked(f)
		t.forgetLocked(f, w)
	}
	return w.turn
}

// give ends a turn.
func (t *turns) give(id turnID) {
	if id == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.IndexFunc(t.running, func(r runningTurn) bool { return r.turn == id }); i >= 0 {
		t.running = slices.Delete(t.running, i, i+1)
	}
	if len(t.queues) > 0 {
		t.nextLocked(time.Now())
	}
}

// visitLocked notes that a flow is there.
func (t *turns) visitLocked(f flow, now time.Time) {
	if t.recent[0].flow != f {
		t.recent[1] = t.recent[0]
	}
	t.recent[0] = visit{f, now}
}

// mayBeginLocked tells whether a flow may have one more turn.
func (t *turns) mayBeginLocked(f flow, now time.Time) bool {
	if len(t.running) >= t.most {
		return false
	}
	if t.aloneLocked(f, now) {
		return true
	}
	own := 0
	for i := range t.running {
		if t.running[i].flow == f {
			own++
		}
	}
	return own < t.own
}

// aloneLocked tells whether there has been no other flow for some time.
func (t *turns) aloneLocked(f flow, now time.Time) bool {
	return !slices.ContainsFunc(t.recent[:], func(v visit) bool { return v.flow != f && now.Sub(v.at) < remembered })
}

func (t *turns) beginLocked(f flow, now time.Time) turnID {
	t.notPendingLocked(f)
	t.last++
	t.running = append(t.running, runningTurn{t.last, f, now})
	return t.last
}

// nextLocked lets waiting requests begin while there is room.
func (t *turns) nextLocked(now time.Time) {
	t.expireLocked(now)
	for i := 0; i < len(t.queues) && len(t.running) < t.most; {
		q := t.queues[i]
		if !t.mayBeginLocked(q.flow, now) {
			i++
			continue
		}
		first := q.waiting[0]
		q.waiting = q.waiting[1:]
		t.queues = slices.Delete(t.queues, i, i+1)
		if len(q.waiting) > 0 {
			t.queues = append(t.queues, q)
		}
		first.turn = t.beginLocked(q.flow, now)
		close(first.decided)
	}
	if len(t.queues) > 0 {
		t.armLocked(now)
	}
}

// expireLocked ends the turns that have been running for the longest time that they may.
func (t *turns) expireLocked(now time.Time) {
	n := 0
	for n < len(t.running) && now.Sub(t.running[n].began) >= longestTurn {
		n++
	}
	t.running = slices.Delete(t.running, 0, n)
}

// armLocked has the oldest turn end when it must.
func (t *turns) armLocked(now time.Time) {
	if len(t.running) == 0 {
		return
	}
	left := longestTurn - now.Sub(t.running[0].began)
	if t.timer == nil {
		t.timer = time.AfterFunc(left, t.wake)
		return
	}
	t.timer.Reset(left)
}

func (t *turns) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nextLocked(time.Now())
}

// queueLocked has the waiting requests of a flow; nil if there are none.
func (t *turns) queueLocked(f flow) *turnQueue {
	if i := slices.IndexFunc(t.queues, func(q *turnQueue) bool { return q.flow == f }); i >= 0 {
		return t.queues[i]
	}
	return nil
}

func (t *turns) waitLocked(f flow, w *turnWaiter) {
	q := t.queueLocked(f)
	if q == nil {
		q = &turnQueue{flow: f}
		t.queues = append(t.queues, q)
	}
	q.waiting = append(q.waiting, w)
}

func (t *turns) forgetLocked(f flow, w *turnWaiter) {
	q := t.queueLocked(f)
	if q == nil {
		return
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(other *turnWaiter) bool { return other == w })
	if len(q.waiting) == 0 {
		t.queues = slices.DeleteFunc(t.queues, func(other *turnQueue) bool { return other == q })
	}
}
