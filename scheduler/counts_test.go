package scheduler

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"
)

// counting is a Metrics that keeps how the scheduler counts.
type counting struct {
	noMetrics
	now func() Counts
}

func (c *counting) Count(now func() Counts) { c.now = now }

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
		want := Counts{Nodes: 1, Pods: 1, Unschedulable: map[Refuser]int{{"default-scheduler", "NodeResourcesFit"}: 2}}
		if got := metrics.now(); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		w.pods.Delete(testPod("first", "1"))
		time.Sleep(time.Minute)
		want.Unschedulable = map[Refuser]int{{"default-scheduler", "NodeResourcesFit"}: 1}
		if got := metrics.now(); !reflect.DeepEqual(got, want) {
			t.Errorf("after one got the room of another: %+v, want %+v", got, want)
		}
		stop()
		if metrics.now != nil {
			t.Error("a scheduler that has stopped is still counted")
		}
	})
}
