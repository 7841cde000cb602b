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
	// longestTurn is after how long such a request no longer keeps others from running: it may be waiting for its client.
	longestTurn = 2 * time.Millisecond
)

// turns lets few requests at a time use the processors. Seats alone do not do that: they are as many as there may be requests that wait for the
// store, and that many requests that compute at the same time would each take as long as all of them. Flows take turns, so that a request of a
// flow with few never waits behind the many of another.
type turns struct {
	most int

	mu      sync.Mutex // guards all below
	last    turn       // the newest
	running []running  // in the order of their begin
	lines   []*line    // flows that wait; the first is next
	timer   *time.Timer
}

// turn names a request that runs; 0 is none.
type turn uint64

type running struct {
	turn  turn
	began time.Time
}

// line is the requests of a flow that wait for a turn.
type line struct {
	schema  *Schema
	flow    uint64
	waiting []*candidate
}

type candidate struct {
	decided chan struct{} // closed when it may run
	turn    turn
}

func newTurns() *turns { return &turns{most: turnsPerProcessor * runtime.GOMAXPROCS(0)} }

// take waits for a turn of a flow, or until ctx ends.
func (t *turns) take(ctx context.Context, c Classified, now time.Time) turn {
	t.mu.Lock()
	t.expireLocked(now)
	if len(t.lines) == 0 && len(t.running) < t.most {
		defer t.mu.Unlock()
		return t.beginLocked(now)
	}
	waits := &candidate{decided: make(chan struct{})}
	t.waitLocked(c, waits)
	t.armLocked(now)
	t.mu.Unlock()
	select {
	case <-waits.decided:
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if waits.turn == 0 {
		t.forgetLocked(c, waits)
	}
	return waits.turn
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

func (t *turns) beginLocked(now time.Time) turn {
	t.last++
	t.running = append(t.running, running{t.last, now})
	return t.last
}

// nextLocked lets waiting requests begin while there is room.
func (t *turns) nextLocked(now time.Time) {
	t.expireLocked(now)
	for len(t.lines) > 0 && len(t.running) < t.most {
		l := t.lines[0]
		first := l.waiting[0]
		l.waiting = l.waiting[1:]
		t.lines = t.lines[1:]
		if len(l.waiting) > 0 {
			t.lines = append(t.lines, l)
		}
		first.turn = t.beginLocked(now)
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

func (t *turns) waitLocked(c Classified, w *candidate) {
	for _, l := range t.lines {
		if l.schema == c.schema && l.flow == c.flow {
			l.waiting = append(l.waiting, w)
			return
		}
	}
	t.lines = append(t.lines, &line{c.schema, c.flow, []*candidate{w}})
}

func (t *turns) forgetLocked(c Classified, w *candidate) {
	for i, l := range t.lines {
		if l.schema == c.schema && l.flow == c.flow {
			l.waiting = slices.DeleteFunc(l.waiting, func(other *candidate) bool { return other == w })
			if len(l.waiting) == 0 {
				t.lines = slices.Delete(t.lines, i, i+1)
			}
			return
		}
	}
}
