package fairness

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// turnsPerProcessor is how many requests that only compute run at a time, for each processor.
	turnsPerProcessor = 2
	// longestTurn is after how long such a request no longer keeps others from running: it may be waiting for its client.
	longestTurn = 2 * time.Millisecond
)

// turns lets few requests at a time use the processors. Seats alone do not do that: they are as many as there may be requests that wait for the
// store, and that many requests that compute at the same time would each take as long as all of them. Flows take turns, so that a request of a
// flow with few never waits behind the many of another. While there are others, a flow leaves one processor to them: on processors that are always
// busy, it takes up to ten milliseconds until Go even notices that a request has come.
//
// Requests that wait for a turn have seats already. So that a flow with many does not have all seats of its level, others of it wait for theirs while
// as many wait for a turn as can have one.
type turns struct {
	most  int // of all flows
	own   int // of a flow while there are others
	lanes lanes
	rest  func() // before each request of a crowd

	mu      sync.Mutex // guards all below
	last    turn       // the newest
	recent  [2]visit   // of the last two flows; the newest first
	running []running  // in the order of their begin
	lines   []*line    // flows that wait; the first is next
	coming  []coming   // flows of which requests have seats, and no turn yet
	timer   *time.Timer
}

// turn names a request that runs; 0 is none.
type turn uint64

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

type running struct {
	turn  turn
	flow  flow
	began time.Time
}

// line is the requests of a flow that wait for a turn.
type line struct {
	flow    flow
	waiting []*candidate
}

// coming is how many requests of a flow have a seat, and no turn yet.
type coming struct {
	flow flow
	n    int
}

type candidate struct {
	decided chan struct{} // closed when it may run
	turn    turn
	others  bool
}

func newTurns() *turns {
	n := processors()
	return &turns{most: turnsPerProcessor * n, own: max(1, n-1), rest: rest}
}

// expect notes that a request of a flow has a seat, and will take a turn.
func (t *turns) expect(f flow) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.coming {
		if t.coming[i].flow == f {
			t.coming[i].n++
			return
		}
	}
	t.coming = append(t.coming, coming{f, 1})
}

// cameLocked notes that one of those requests waits no longer.
func (t *turns) cameLocked(f flow) {
	for i := range t.coming {
		if t.coming[i].flow != f {
			continue
		}
		if t.coming[i].n--; t.coming[i].n == 0 {
			t.coming = slices.Delete(t.coming, i, i+1)
		}
		return
	}
}

// crowded adds to all the flows of which no more requests need a seat at present.
func (t *turns) crowded(all []flow) []flow {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.coming {
		if c.n >= t.most {
			all = append(all, c.flow)
		}
	}
	return all
}

// take waits for a turn of a flow, or until ctx ends. It tells whether there are other flows.
func (t *turns) take(ctx context.Context, f flow, now time.Time) (got turn, others bool) {
	t.mu.Lock()
	t.visitLocked(f, now)
	t.expireLocked(now)
	if t.lineLocked(f) == nil && t.mayBeginLocked(f, now) {
		defer t.mu.Unlock()
		return t.beginLocked(f, now), !t.aloneLocked(f, now)
	}
	waits := &candidate{decided: make(chan struct{})}
	t.waitLocked(f, waits)
	t.armLocked(now)
	t.mu.Unlock()
	select {
	case <-waits.decided:
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if waits.turn == 0 {
		t.cameLocked(f)
		t.forgetLocked(f, waits)
	}
	return waits.turn, waits.others
}

// give ends a turn.
func (t *turns) give(which turn) {
	if which == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.IndexFunc(t.running, func(r running) bool { return r.turn == which }); i >= 0 {
		t.running = slices.Delete(t.running, i, i+1)
	}
	if len(t.lines) > 0 {
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

func (t *turns) beginLocked(f flow, now time.Time) turn {
	t.cameLocked(f)
	t.last++
	t.running = append(t.running, running{t.last, f, now})
	return t.last
}

// nextLocked lets waiting requests begin while there is room.
func (t *turns) nextLocked(now time.Time) {
	t.expireLocked(now)
	for i := 0; i < len(t.lines) && len(t.running) < t.most; {
		l := t.lines[i]
		if !t.mayBeginLocked(l.flow, now) {
			i++
			continue
		}
		first := l.waiting[0]
		l.waiting = l.waiting[1:]
		t.lines = slices.Delete(t.lines, i, i+1)
		if len(l.waiting) > 0 {
			t.lines = append(t.lines, l)
		}
		first.turn, first.others = t.beginLocked(l.flow, now), !t.aloneLocked(l.flow, now)
		close(first.decided)
	}
	if len(t.lines) > 0 {
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

// lineLocked is where a flow's requests wait; nil if none does.
func (t *turns) lineLocked(f flow) *line {
	if i := slices.IndexFunc(t.lines, func(l *line) bool { return l.flow == f }); i >= 0 {
		return t.lines[i]
	}
	return nil
}

func (t *turns) waitLocked(f flow, w *candidate) {
	l := t.lineLocked(f)
	if l == nil {
		l = &line{flow: f}
		t.lines = append(t.lines, l)
	}
	l.waiting = append(l.waiting, w)
}

func (t *turns) forgetLocked(f flow, w *candidate) {
	l := t.lineLocked(f)
	if l == nil {
		return
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(other *candidate) bool { return other == w })
	if len(l.waiting) == 0 {
		t.lines = slices.DeleteFunc(t.lines, func(other *line) bool { return other == l })
	}
}
