package fairness

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func flowOf(n uint64) flow { return flow{nil, n} }

func TestFlowsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &turns{most: 1, own: 1}
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
		if len(turns.running)+len(turns.queues) != 0 {
			t.Errorf("%v run and %v wait at the end", turns.running, turns.queues)
		}
	})
}

// A flow that is alone may have all turns. While there are others it leaves some to them, until they have not come for
// a while.
func TestAFlowLeavesAProcessorToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &turns{most: 4, own: 1}
		var running []turnID
		var all sync.WaitGroup
		var mu sync.Mutex
		begin := func(flow uint64, n, want int, when string) {
			t.Helper()
			for range n {
				all.Go(func() {
					mine := turns.take(t.Context(), flowOf(flow), time.Now())
					mu.Lock()
					defer mu.Unlock()
					running = append(running, mine)
				})
			}
			synctest.Wait()
			if len(running) != want {
				t.Errorf("%s: %d run, want %d", when, len(running), want)
			}
		}
		end := func(n int) {
			for range n {
				one := running[0]
				running = running[1:]
				turns.give(one)
				synctest.Wait() // those that wait begin
			}
		}
		begin(1, 5, 4, "alone")
		end(5)
		begin(2, 1, 1, "another comes")
		begin(1, 3, 2, "the first beside it")
		begin(2, 2, 2, "the other, which has its turn")
		end(2)
		begin(1, 0, 2, "both have ended one")
		end(4)
		time.Sleep(remembered)
		begin(1, 4, 4, "alone again")
		end(4)
		all.Wait()
		if len(turns.running)+len(turns.queues) != 0 {
			t.Errorf("%v run and %v wait at the end", turns.running, turns.queues)
		}
	})
}

func TestRequestsThatComputeTakeATurnAndGiveItBack(t *testing.T) {
	d := dispatcher(4, 10)
	for _, computes := range []bool{true, false} {
		execution, err := d.Enter(t.Context(), d.Classify(get("jane")), Work{Seats: 1, Computes: computes}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if running := len(d.turns.running) == 1; running != computes {
			t.Errorf("computes: %v, has a turn: %v", computes, running)
		}
		execution.End()
		if len(d.turns.running) != 0 {
			t.Errorf("the turn was not given back: %v", d.turns.running)
		}
	}
}

func TestATurnThatTakesLongKeepsNobodyFromRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &turns{most: 2, own: 2}
		var slow []turnID
		for range 2 {
			one := turns.take(t.Context(), flowOf(0), time.Now())
			slow = append(slow, one)
		}
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

func TestARequestThatIsGivenUpLeavesItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &turns{most: 1, own: 1}
		first := turns.take(t.Context(), flowOf(0), time.Now())
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if given := turns.take(ctx, flowOf(0), time.Now()); given != 0 {
			t.Error("a request got a turn that was taken")
		}
		if len(turns.queues) != 0 {
			t.Errorf("%v wait", turns.queues)
		}
		turns.give(0)
		turns.give(first)
		if len(turns.running) != 0 {
			t.Errorf("%v run at the end", turns.running)
		}
	})
}

// A flow with very many requests that compute has only as many seats as it can use: a request of another gets one at
// once.
func TestAFlowWithManyDoesNotHaveAllSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dispatcher(4, 50)
		const many = 40 // more than there are seats
		seats := Work{Seats: 1, Computes: true}
		d.turns.most, d.turns.own = 3, 1
		executions := make(chan Execution, many)
		for range many {
			go func() {
				execution, err := d.Enter(t.Context(), d.Classify(get("many")), seats, nil)
				if err != nil {
					t.Error(err)
				}
				executions <- execution
			}()
			synctest.Wait()
		}
		level := d.Classify(get("many")).schema.level
		level.mu.Lock()
		if want := 2 * d.turns.most; level.inUse != want || want >= level.current {
			t.Errorf("%d of %d seats are taken, want %d: by those that have turns, and by as many that come next", level.inUse, level.current, want)
		}
		level.mu.Unlock()
		began := time.Now()
		execution, err := d.Enter(t.Context(), d.Classify(get("one")), Work{Seats: 1, Computes: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited > longestTurn {
			t.Errorf("the other waited %v", waited)
		}
		execution.End()
		for range many { // all others get theirs
			synctest.Wait()
			select {
			case execution := <-executions:
				execution.End()
			case <-time.After(time.Second):
				t.Fatal("nobody is served")
			}
		}
		if len(d.turns.running)+len(d.turns.queues)+len(d.turns.pending) != 0 || level.inUse+level.waiting != 0 {
			t.Errorf("%+v is left, %d seats and %d who wait", d.turns, level.inUse, level.waiting)
		}
	})
}

// Requests that take long, and give their turns back only when the time of these is over, keep none of their flow
// waiting while there are seats.
func TestRequestsThatTakeLongLeaveTheSeatsToOthersOfTheirFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dispatcher(4, 50)
		level := d.Classify(get("many")).schema.level
		var all sync.WaitGroup
		for range level.current + 5 {
			all.Go(func() {
				execution, err := d.Enter(t.Context(), d.Classify(get("many")), Work{Seats: 1, Computes: true}, nil)
				if err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				execution.End()
			})
		}
		time.Sleep(500 * time.Millisecond) // in a synctest bubble: takes no time
		level.mu.Lock()
		if level.inUse != level.current {
			t.Errorf("%d of %d seats are taken", level.inUse, level.current)
		}
		level.mu.Unlock()
		all.Wait()
	})
}

func TestSeatsAndTurnsAreGivenBackWhateverHappens(t *testing.T) {
	d := dispatcher(4, 50)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for n := range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n%7)*50*time.Microsecond)
				user := []string{"many", "many", "many", "one"}[i%4]
				execution, err := d.Enter(ctx, d.Classify(get(user)), Work{Seats: 1 + n%3, Computes: n%5 > 0}, nil)
				if err == nil {
					execution.End()
				}
				cancel()
			}
		})
	}
	all.Wait()
	level := d.Classify(get("many")).schema.level
	if len(d.turns.running)+len(d.turns.queues)+len(d.turns.pending) != 0 || level.inUse+level.waiting+level.executing != 0 {
		t.Errorf("%+v is left, %d seats and %d who wait", d.turns, level.inUse, level.waiting)
	}
}
