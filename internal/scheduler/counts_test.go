package scheduler

import (
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// counting is a Metrics that keeps how the scheduler counts, and what it measures.
type counting struct {
	noMetrics
	now func() Counts

	mu       sync.Mutex     // guards what follows
	measured map[string]int // how often
}

func (c *counting) Count(now func() Counts) { c.now = now }

func (c *counting) add(words ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.measured == nil {
		c.measured = map[string]int{}
	}
	c.measured[fmt.Sprintln(words...)]++
}

func (c *counting) times(words ...any) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.measured[fmt.Sprintln(words...)]
}

func (c *counting) Handled(event string, _ time.Duration) { c.add(event) }

func (c *counting) DeviceWaited(profile string, w plugin.DeviceWait) {
	c.add(profile, w.Driver, w.Conditioned, w.Outcome)
}

func (c *counting) ClaimCreated(err error) { c.add("claim", err) }

func (c *counting) Evicted(err error, _ time.Duration) { c.add("evicted", err) }

func (c *counting) Profile(name string) ProfileMetrics { return c }

func (c *counting) Ran(point Point, status PointStatus, _ time.Duration) { c.add(point, status) }

func (c *counting) RanRule(rule string, point Point, status PointStatus, _ time.Duration) {
	c.add(rule, point, status)
}

func (c *counting) Bound(_ int, _ time.Duration, timedOut bool) { c.add("bound", timedOut) }

func TestNodesAndPodsAreCountedWithWhatRefusesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, metrics := newWorld(), &counting{}
		w.nodes.Add(testNode("node", "1"))
		w.pods.Add(testPod("first", "1"))
		stop := w.start(t, Options{Metrics: metrics})
		time.Sleep(time.Second)
		w.pods.Add(testPod("second", "1"))
		w.pods.Add(testPod("third", "1"))
		time.Sleep(time.Second)
		fit := Refuser{"default-scheduler", "NodeResourcesFit"}
		want := Counts{Nodes: 1, Pods: 1, Unschedulable: map[Refuser]int{fit: 2}, Incoming: map[Incoming]uint64{
			{"active", "UnschedulablePodAdd"}: 3, {"unschedulable", "ScheduleAttemptFailure"}: 2,
		}}
		// The node was admitted when it was empty, and refused when it was full. Both pods that do not fit share that.
		evaluations := [2]uint64{2, 1}
		check := func(when string) {
			t.Helper()
			got := metrics.now()
			if found := [2]uint64{got.Evaluations[Evaluation{fit, Filter}], got.Evaluations[Evaluation{fit, Score}]}; found != evaluations {
				t.Errorf("%s the rule has filtered and scored %v times, want %v", when, found, evaluations)
			}
			got.Evaluations = nil
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, want %+v", when, got, want)
			}
		}
		check("with one pod that fits")
		w.pods.Delete(testPod("first", "1"))
		time.Sleep(time.Minute)
		want.Unschedulable = map[Refuser]int{fit: 1}
		want.Incoming[Incoming{"active", "AssignedPodDelete"}] = 2
		want.Incoming[Incoming{"unschedulable", "ScheduleAttemptFailure"}] = 3
		evaluations = [2]uint64{4, 2}
		check("after one got the room of another")
		for _, c := range []struct {
			times int
			words []any
		}{
			{0, []any{PreFilter, Succeeded}}, {2, []any{Filter, Succeeded}}, {3, []any{Filter, Refused}}, {3, []any{PostFilter, Refused}}, {2, []any{Bind, Succeeded}},
			{1, []any{"NodeAdd"}}, {3, []any{"UnschedulablePodAdd"}}, {2, []any{"AssignedPodAdd"}}, {1, []any{"AssignedPodDelete"}},
			{1, []any{"NodeResourcesFit", Filter, Succeeded}}, {1, []any{"NodeResourcesFit", Score, Succeeded}}, // the first of ten attempts
		} {
			if n := metrics.times(c.words...); n != c.times {
				t.Errorf("%v was measured %d times, want %d", c.words, n, c.times)
			}
		}
		stop()
		if metrics.now != nil {
			t.Error("a scheduler that has stopped is still counted")
		}
	})
}
