package fairness

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func flowOf(n uint64) Classified { return Classified{nil, n} }

func TestFlowsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &turns{most: 1}
		first := turns.take(t.Context(), flowOf(0), time.Now())
		var mu sync.Mutex
		var order []uint64
		var all sync.WaitGroup
		enter := func(flow uint64) {
			all.Go(func() {
				mine := turns.take(t.Context(), flowOf(flow), time.Now())
				mu.Lock()
				order = append(order, flow)
				mu.Unlock()
				turns.give(mine)
			})
			synctest.Wait()
		}
		for range 5 {
			enter(1)
		}
		enter(2)
		turns.give(first)
		all.Wait()
		if i := slices.Index(order, 2); i > 1 {
			t.Errorf("the request of the other flow was number %d of %v", i, order)
		}
		if len(turns.running)+len(turns.lines) != 0 {
			t.Errorf("%v run and %v wait at the end", turns.running, turns.lines)
		}
	})
}

func TestRequestsThatComputeTakeATurnAndGiveItBack(t *testing.T) {
	d := dispatcher(4, 10)
	for _, computes := range []bool{true, false} {
		place, err := d.Enter(t.Context(), d.Classify(get("jane")), Work{Seats: 1, Computes: computes}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if running := len(d.turns.running) == 1; running != computes {
			t.Errorf("computes: %v, has a turn: %v", computes, running)
		}
		place.Leave()
		if len(d.turns.running) != 0 {
			t.Errorf("the turn was not given back: %v", d.turns.running)
		}
	}
}

func TestATurnThatTakesLongKeepsNobodyFromRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &turns{most: 2}
		slow := []turn{turns.take(t.Context(), flowOf(0), time.Now()), turns.take(t.Context(), flowOf(0), time.Now())}
		began := time.Now()
		next := turns.take(t.Context(), flowOf(1), time.Now())
		if waited := time.Since(began); waited != longestTurn {
			t.Errorf("the next request waited %v", waited)
		}
		for _, s := range append(slow, next) {
			turns.give(s)
		}
		if len(turns.running) != 0 {
			t.Errorf("%v run at the end", turns.running)
		}
	})
}

func TestARequestThatIsGivenUpLeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &turns{most: 1}
		first := turns.take(t.Context(), flowOf(0), time.Now())
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if given := turns.take(ctx, flowOf(0), time.Now()); given != 0 {
			t.Error("a request got a turn that was taken")
		}
		if len(turns.lines) != 0 {
			t.Errorf("%v wait", turns.lines)
		}
		turns.give(0)
		turns.give(first)
		if len(turns.running) != 0 {
			t.Errorf("%v run at the end", turns.running)
		}
	})
}
