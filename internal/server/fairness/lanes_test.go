package fairness

import (
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestLanesWorkAtTheSameTimeAndEndWithoutWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lanes
		end := l.begin()
		began := time.Now()
		ended := make(chan struct{}, 3)
		for range 3 {
			go func() {
				l.do(func() { time.Sleep(time.Second) })
				ended <- struct{}{}
			}()
		}
		for range 3 {
			<-ended
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("they took %v", took)
		}
		l.do(func() {})
		if idleIn(&l) != 3 {
			t.Errorf("%d threads wait for work, want 3", idleIn(&l))
		}
		time.Sleep(2 * laneStays)
		if idleIn(&l) != 0 {
			t.Errorf("%d threads have stayed", idleIn(&l))
		}
		done := false
		if l.do(func() { done = true }); !done {
			t.Error("nothing is done after they have ended")
		}
		// Nothing may be left in the bubble after this, neither an idle thread nor one that works.
		working := make(chan struct{})
		go l.do(func() {
			close(working)
			time.Sleep(time.Second)
		})
		<-working
		l.do(func() {})
		end()
		if done = false; idleIn(&l) != 0 {
			t.Errorf("%d threads wait for work after the end", idleIn(&l))
		}
		if l.do(func() { done = true }); !done {
			t.Error("nothing is done after the end")
		}
		time.Sleep(time.Second)
	})
}

func TestClientsThatDoNotReadKeepFewThreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lanes
		end := l.begin()
		release := make(chan struct{})
		var serving atomic.Int32
		const clients = mostLanes + 5
		for range clients {
			go l.do(func() {
				serving.Add(1)
				<-release
			})
		}
		synctest.Wait()
		l.mu.Lock()
		if l.threads != mostLanes || serving.Load() != clients {
			t.Errorf("%d of %d are served, by %d threads", serving.Load(), clients, l.threads)
		}
		l.mu.Unlock()
		close(release)
		end()
		synctest.Wait()
		if l.threads != 0 {
			t.Errorf("%d threads are left", l.threads)
		}
	})
}

func TestAPanicOnALaneIsOneOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lanes
		defer l.begin()()
		of := func(run func()) (p any) {
			defer func() { p = recover() }()
			l.do(run)
			return nil
		}
		if p := of(func() { panic(http.ErrAbortHandler) }); p != http.ErrAbortHandler {
			t.Errorf("an aborted answer panicked with %v", p)
		}
		err, _ := of(func() { panic("broken") }).(error)
		if err == nil || !strings.HasPrefix(err.Error(), "broken\n") || !strings.Contains(err.Error(), "TestAPanicOnALane") {
			t.Errorf("the panic is %v, want the value and the stack", err)
		}
		if p := of(func() {}); p != nil || idleIn(&l) != 1 {
			t.Errorf("after panics: %v, %d threads", p, idleIn(&l))
		}
	})
}

// While there are lanes of any server of the process, more threads may run Go code; turns do not count them.
func TestLanesHaveThreadsBesidesThoseOfTheProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, before := range []int{runtime.NumCPU(), runtime.NumCPU() - 1} {
		if before == 0 {
			continue
		}
		runtime.GOMAXPROCS(before)
		want := before + spare
		if before < runtime.NumCPU() {
			want = before
		}
		synctest.Test(t, func(t *testing.T) {
			var one, other lanes
			defer one.begin()()
			endOther := other.begin()
			during := func() (n int) {
				one.do(func() { n = runtime.GOMAXPROCS(0) })
				return n
			}
			other.do(func() {})
			if n := during(); n != want || processors() != before {
				t.Errorf("%d threads may run Go code, want %d; %d processors, want %d", n, want, processors(), before)
			}
			endOther()
			synctest.Wait()
			if n := during(); n != want {
				t.Errorf("%d threads may run Go code, want %d", n, want)
			}
		})
		if n := runtime.GOMAXPROCS(0); n != before {
			t.Errorf("%d threads may run Go code when there are no lanes, want %d", n, before)
		}
	}
}

func TestLongRequestsAreServedApartWhileThereAreOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dispatcher(8, 10)
		enter := func(user string, w Work) (apart bool) {
			t.Helper()
			p, err := d.Enter(t.Context(), d.Classify(get(user)), w, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Leave()
			return p.Apart()
		}
		long, short := Work{Computes: true, Long: true}, Work{Computes: true}
		steps := []struct {
			user  string
			work  Work
			apart bool
		}{
			{"a", long, false}, {"a", long, false}, {"b", long, true}, {"b", short, false}, {"a", long, true},
		}
		for i, s := range steps {
			if got := enter(s.user, s.work); got != s.apart {
				t.Errorf("request %d is served apart: %v", i, got)
			}
		}
		time.Sleep(remembered)
		if enter("a", long) {
			t.Error("the request of a flow that is alone is served apart")
		}
	})
}

func idleIn(l *lanes) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.idle)
}

func TestOnlyManyRequestsAreACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dispatcher(1, 100)
		enter := func(user string) Place {
			p, err := d.Enter(t.Context(), d.Classify(get(user)), Work{Computes: true}, nil)
			if err != nil {
				t.Error(err)
			}
			return p
		}
		other := enter("b")
		other.Leave()
		rested := 0 // by one at a time
		d.turns.rest = func() { rested++ }
		crowding := make(chan bool, 100)
		const ten = 10 // they have all seats
		for range ten {
			defer enter("a").Leave()
		}
		const more = crowd + 5
		for range more {
			go func() {
				p := enter("a")
				if p.crowding() != p.Apart() {
					t.Error("a request of a crowd is not served apart, or one that is not is")
				}
				p.Do(p.Leave)
				crowding <- p.crowding()
			}()
			synctest.Wait()
		}
		time.Sleep(remembered / 2)
		d.turns.mu.Lock()
		d.turns.visitLocked(flowOf(1), time.Now()) // somebody else is there
		d.turns.mu.Unlock()
		for _, l := range d.levels {
			l.mu.Lock()
			l.current += more
			l.dispatchLocked()
			l.mu.Unlock()
		}
		n := 0
		for range more {
			if <-crowding {
				n++
			}
		}
		if n != more-crowd {
			t.Errorf("%d of %d that wait are a crowd, want %d", n, more, more-crowd)
		}
		if rested != n {
			t.Errorf("%d requests of a crowd of %d left the processor to others first", rested, n)
		}
	})
}
