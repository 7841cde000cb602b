package scheduler

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/scheduler/cluster"
)

func TestPodsGetNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for i := range 3 {
			w.nodes.Add(testNode(fmt.Sprintf("node-%d", i), "4"))
		}
		w.pods.Add(testPod("early", "1"))
		stop := w.start(t, Options{})
		defer stop()
		for i := range 5 {
			w.pods.Add(testPod(fmt.Sprintf("pod-%d", i), "1"))
		}
		time.Sleep(time.Second)
		perNode := make(map[string]int)
		for _, pod := range w.pods.Objects() {
			perNode[pod.Spec.NodeName]++
		}
		for i := range 3 {
			if got := perNode[fmt.Sprintf("node-%d", i)]; got != 2 {
				t.Errorf("node-%d has %d pods, want 2: %v", i, got, perNode)
			}
		}
	})
}

func TestPodThatFindsNoNodeIsTriedAgainWhenThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.nodes.Add(testNode("node", "1"))
		w.pods.Add(testPod("first", "1"))
		stop := w.start(t, Options{})
		defer stop()
		time.Sleep(time.Second)
		w.pods.Add(testPod("second", "1"))
		time.Sleep(time.Second)
		if node := w.nodeOf(t, "second"); node != "" {
			t.Fatalf("second is on %q though there is no room", node)
		}
		pod, _ := w.Read(t.Context(), cluster.Key{Namespace: "default", Name: "second"})
		const message = "0/1 nodes are available: 1 Insufficient cpu."
		if c := pod.Status.Conditions; len(c) != 1 || c[0].Reason != "Unschedulable" || c[0].Message != message {
			t.Errorf("conditions: %+v", c)
		}
		w.pods.Delete(testPod("first", "1"))
		time.Sleep(2 * time.Second)
		if node := w.nodeOf(t, "second"); node != "node" {
			t.Errorf("second is on %q after room was made", node)
		}
		want := []string{
			"Normal Scheduled first: Successfully assigned default/first to node",
			"Warning FailedScheduling second: " + message,
			"Normal Scheduled second: Successfully assigned default/second to node",
		}
		if got := w.eventLog(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("events:\n%q\nwant\n%q", got, want)
		}
	})
}
