package backlog

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/randomly"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func pod(name string, change ...func(*cluster.Pod)) *cluster.Pod {
	p := &cluster.Pod{
		Key: cluster.Key{Namespace: "default", Name: name}, UID: types.UID(name),
		SchedulerName: "default-scheduler", Shape: &cluster.Shape{},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func priority(n int32) func(*cluster.Pod)      { return func(p *cluster.Pod) { p.Priority = n } }
func gates(names ...string) func(*cluster.Pod) { return func(p *cluster.Pod) { p.Gates = names } }

// drain pops all active pods and returns their names.
func drain(q *Queue, now time.Time) (names []string) {
	for {
		e, ok := q.Pop(now)
		if !ok {
			return names
		}
		names = append(names, e.Pod.Key.Name)
	}
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestHigherPriorityComesFirstThenWhoWaitsLongest(t *testing.T) {
	q := New(Options{})
	q.Set(pod("late"), start.Add(time.Second))
	q.Set(pod("early"), start)
	q.Set(pod("high", priority(10)), start.Add(2*time.Second))
	q.Set(pod("low", priority(-1)), start)
	expect(t, drain(q, start.Add(time.Minute)), "high", "early", "late", "low")
}

func TestPriorityThatChangesMovesThePod(t *testing.T) {
	q := New(Options{})
	q.Set(pod("a"), start)
	q.Set(pod("b"), start)
	q.Set(pod("b", priority(5)), start)
	expect(t, drain(q, start), "b", "a")
}

func TestBackoffDoublesUpToItsMaximum(t *testing.T) {
	q := New(Options{})
	q.Set(pod("a"), start)
	now := start
	for _, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		e, ok := q.Pop(now)
		if !ok {
			t.Fatal("not active when its back-off was over")
		}
		q.Retry(e, now)
		next, _ := q.Next()
		if got := next.Sub(now); got != want*time.Second {
			t.Fatalf("attempt %d backs off %v, want %v s", e.Attempts, got, want)
		}
		q.Advance(next.Add(-time.Millisecond))
		if _, ok := q.Pop(next); ok {
			t.Fatal("active before its back-off was over")
		}
		q.Advance(next)
		now = next
	}
}

func TestUnschedulablePodsWakeByGroupAndAfterTheirBackoff(t *testing.T) {
	q := New(Options{})
	for _, name := range []string{"a", "b"} {
		q.Set(pod(name), start)
	}
	a, _ := q.Pop(start)
	b, _ := q.Pop(start)
	q.Fail(a, 1, start)
	q.Fail(b, 2, start)
	q.Wake(start.Add(time.Millisecond), Activated, func(g Group) bool { return g.Refused == 2 }, nil)
	if s := q.Sizes(); s.Unschedulable != 1 || s.BackingOff != 1 {
		t.Errorf("%+v", s)
	}
	q.Advance(start.Add(time.Second))
	expect(t, drain(q, start.Add(time.Second)), "b")
	q.Wake(start.Add(time.Minute), Activated, func(g Group) bool { return true }, nil)
	expect(t, drain(q, start.Add(time.Minute)), "a")
}

func TestUnschedulablePodsAreTriedAgainAfterFiveMinutes(t *testing.T) {
	q := New(Options{})
	q.Set(pod("a"), start)
	e, _ := q.Pop(start)
	q.Fail(e, 1, start)
	next, ok := q.Next()
	if !ok || next.Sub(start) != 5*time.Minute {
		t.Fatalf("next in %v", next.Sub(start))
	}
	q.Advance(next)
	if !e.TimedOut {
		t.Error("the pod does not know that it is tried again only because of the time")
	}
	again, _ := q.Pop(next)
	q.Fail(again, 1, next)
	if again.TimedOut {
		t.Error("after the attempt the pod still counts as tried because of the time")
	}
	all := map[string]uint64{}
	q.Incoming(func(queue string, because Event, pods uint64) { all[queue+" "+because.String()] = pods })
	want := map[string]uint64{"active UnschedulablePodAdd": 1, "unschedulable ScheduleAttemptFailure": 2, "active UnschedulableTimeout": 1}
	if !maps.Equal(all, want) {
		t.Errorf("pods came as %v, want %v", all, want)
	}
}

func TestEachEventHasTheNameOfItsChange(t *testing.T) {
	for change, name := range map[cluster.Change]string{
		cluster.NodeAdded: "NodeAdd", cluster.PodGone: "AssignedPodDelete", cluster.PodGone | cluster.PodChanged: "AssignedPodDelete",
		cluster.NodeGone: "NodeDelete", cluster.VolumeChanged: "PersistentVolumeUpdate", cluster.DriverChanged: "CSINodeUpdate",
	} {
		if got := EventOf(change).String(); got != name {
			t.Errorf("change %d is the event %s, want %s", change, got, name)
		}
	}
}

func TestGatedPodsWaitForTheirGates(t *testing.T) {
	q := New(Options{})
	q.Set(pod("a", gates("quota")), start)
	expect(t, drain(q, start))
	if q.Sizes().Gated != 1 {
		t.Errorf("%+v", q.Sizes())
	}
	q.Set(pod("a"), start)
	expect(t, drain(q, start), "a")
}

func TestPodThatChangedItsShapeIsTriedAgain(t *testing.T) {
	q := New(Options{})
	first := pod("a")
	q.Set(first, start)
	e, _ := q.Pop(start)
	q.Fail(e, 1, start)
	same := *first
	q.Set(&same, start.Add(time.Hour))
	expect(t, drain(q, start.Add(time.Hour)))
	q.Set(pod("a"), start.Add(time.Hour)) // with another shape
	expect(t, drain(q, start.Add(time.Hour)), "a")
}

func TestWhatHappensInFlightIsRespected(t *testing.T) {
	q := New(Options{})
	q.Set(pod("removed"), start)
	removed, _ := q.Pop(start)
	q.Remove(removed.Pod.Key)
	q.Retry(removed, start)
	q.Set(pod("replaced"), start)
	replaced, _ := q.Pop(start)
	q.Set(pod("replaced", func(p *cluster.Pod) { p.UID = "other" }), start)
	q.Fail(replaced, 1, start)
	q.Set(pod("changed"), start)
	expect(t, drain(q, start), "replaced", "changed")
	if s := q.Sizes(); s != (Sizes{InFlight: 2}) {
		t.Errorf("%+v", s)
	}
}

func TestPodsThatBackOffAreTriedEarlyWhileNobodyElseIsThere(t *testing.T) {
	q := New(Options{})
	for _, name := range []string{"refused", "broken"} {
		q.Set(pod(name), start)
	}
	refused, _ := q.Pop(start)
	broken, _ := q.Pop(start)
	q.Fail(refused, 1, start)
	q.Retry(broken, start)
	q.Wake(start, Activated, func(Group) bool { return true }, nil)
	q.Set(pod("fresh"), start)
	expect(t, drain(q, start), "fresh", "refused")
	q.Advance(start.Add(time.Second))
	expect(t, drain(q, start.Add(time.Second)), "broken")
}

// TestEveryPodIsInExactlyOnePlace makes random changes and counts.
func TestEveryPodIsInExactlyOnePlace(t *testing.T) {
	seed := randomly.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	q, now := New(Options{}), start
	known, flying := map[string]bool{}, []*Entry{}
	for range 20000 {
		name := fmt.Sprint(r.IntN(50))
		switch r.IntN(8) {
		case 0, 1:
			q.Set(pod(name, priority(int32(r.IntN(3)))), now)
			known[name] = true
		case 2:
			q.Remove(cluster.Key{Namespace: "default", Name: name})
			delete(known, name)
		case 3, 4:
			if e, ok := q.Pop(now); ok {
				flying = append(flying, e)
			}
		case 5:
			for _, e := range flying {
				if r.IntN(2) == 0 {
					q.Fail(e, 1, now)
				} else {
					q.Retry(e, now)
				}
			}
			flying = flying[:0]
		case 6:
			q.Wake(now, Activated, func(Group) bool { return r.IntN(2) == 0 }, nil)
		case 7:
			now = now.Add(time.Duration(r.IntN(5000)) * time.Millisecond)
			q.Advance(now)
		}
		s := q.Sizes()
		if got := s.Active + s.BackingOff + s.Unschedulable + s.Gated + s.InFlight; got != len(known) || len(q.entries) != got {
			t.Fatalf("seed %d: %d pods in %+v, want %d", seed, got, s, len(known))
		}
		if s.Active != len(q.active.entries) || s.BackingOff != len(q.backoff.entries)+len(q.failed.entries) || s.Unschedulable != len(q.waiting.entries) {
			t.Fatalf("seed %d: sizes are wrong: %+v", seed, s)
		}
	}
}
