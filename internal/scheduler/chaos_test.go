package scheduler

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/randomly"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestNoNodeGetsMoreThanFitsWhateverFails binds pods to nodes that are nearly full. Bindings fail, succeed without an
// answer or happen long after they seemed to have failed; watches break and expire; nodes are deleted and created
// again; schedulers stop and start. In the end, when nothing fails any more, as many pods as fit must have a node: no
// capacity may be lost either.
func TestNoNodeGetsMoreThanFitsWhateverFails(t *testing.T) {
	seed := randomly.Seed(t)
	for i := range uint64(12) {
		synctest.Test(t, func(t *testing.T) { chaos(t, seed+i) })
		if t.Failed() {
			t.Fatalf("seed %d", seed+i)
		}
	}
}

const (
	chaosNodes = 4
	chaosCPUs  = 5
)

// patient does not try pods again without a reason, which would hide a missed reason.
var patient = Options{Backlog: Backlog{MaxWait: 1000 * time.Hour}}

func chaos(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 2))
	faults := rand.New(rand.NewPCG(seed, 3))
	w := newWorld()
	w.overfull = func(node string, pods []string) { t.Errorf("seed %d: too much on %s: %v", seed, node, pods) }
	w.fault = func() fault { return anyFault(faults) }
	for i := range chaosNodes {
		w.nodes.Add(testNode(fmt.Sprintf("node-%d", i), fmt.Sprint(chaosCPUs)))
	}
	stop := w.start(t, patient)
	for step := range 150 {
		switch n := random.IntN(100); {
		case n < 50:
			w.pods.Add(testPod(fmt.Sprintf("pod-%d", random.IntN(40)), "1")) // replaces one of that name
		case n < 70:
			w.pods.Delete(testPod(fmt.Sprintf("pod-%d", random.IntN(40)), "1"))
		case n < 78:
			w.pods.EndWatches(errors.New("connection reset"))
		case n < 82:
			w.pods.EndWatches(nil)
			w.pods.Compact()
			w.pods.Fail("list", errors.New("no route to host"), errors.New("no route to host"))
		case n < 86:
			node := testNode(fmt.Sprintf("node-%d", random.IntN(chaosNodes)), fmt.Sprint(chaosCPUs))
			w.nodes.Delete(node)
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
			w.nodes.Add(node)
		case n < 88:
			stop()
			stop = w.start(t, patient)
		default:
			time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
		}
		if t.Failed() {
			t.Fatalf("step %d", step)
		}
	}
	settle(t, w)
	stop()
}

// settle fills the cluster completely without faults and expects all capacity to be used.
func settle(t *testing.T, w *world) {
	w.mu.Lock()
	w.fault = nil
	w.mu.Unlock()
	for i := range chaosNodes * chaosCPUs {
		w.pods.Add(testPod(fmt.Sprintf("last-%d", i), "1"))
	}
	time.Sleep(10 * time.Minute) // informers that have failed often wait long
	perNode := make(map[string]int)
	for _, pod := range w.pods.Objects() {
		if pod.Spec.NodeName != "" {
			perNode[pod.Spec.NodeName]++
		}
	}
	for i := range chaosNodes {
		if got := perNode[fmt.Sprintf("node-%d", i)]; got != chaosCPUs {
			t.Errorf("node-%d has %d pods, there is room for %d", i, got, chaosCPUs)
		}
	}
}

func anyFault(random *rand.Rand) fault {
	lost := errors.New("read tcp: connection reset by peer")
	f := fault{delay: time.Duration(random.IntN(50)) * time.Millisecond}
	switch n := random.IntN(100); {
	case n < 50:
	case n < 60:
		f.answer, f.never = apierrors.NewInternalError(errors.New("etcdserver: request timed out")), true
	case n < 70:
		f.answer = lost
	case n < 80:
		f.answer, f.after = lost, time.Duration(1+random.IntN(1000))*time.Millisecond
	case n < 88:
		f.answer, f.never = apierrors.NewForbidden(podResource, "pod", errors.New("no")), true
	case n < 96:
		f.answer, f.never = apierrors.NewConflict(podResource, "pod", errors.New("try again")), true
	default:
		f.answer, f.never = apierrors.NewTooManyRequests("busy", 1), true
	}
	return f
}

// TestRefusalsAfterALostAnswerEnd loses the answer to a binding that is never carried out, and refuses all later ones.
// The capacity must become free once the server can no longer carry out the first.
func TestRefusalsAfterALostAnswerEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		faults := []fault{{answer: errors.New("i/o timeout"), never: true}}
		w.fault = func() fault {
			f := fault{answer: apierrors.NewForbidden(podResource, "pod", errors.New("no")), never: true}
			if len(faults) > 0 {
				f, faults = faults[0], faults[1:]
			}
			return f
		}
		w.nodes.Add(testNode("node", "1"))
		stop := w.start(t, patient)
		defer stop()
		w.pods.Add(testPod("first", "1"))
		time.Sleep(answerWithin)
		if log := w.eventLog(); len(log) > 0 {
			t.Errorf("given up while the binding may still be carried out: %q", log)
		}
		time.Sleep(2 * maxPause)
		w.pods.Delete(testPod("first", "1"))
		w.mu.Lock()
		w.fault = nil
		w.mu.Unlock()
		if log := w.eventLog(); len(log) == 0 || !strings.Contains(log[0], "FailedScheduling first: binding rejected") {
			t.Errorf("events: %q", log)
		}
		w.pods.Add(testPod("second", "1"))
		time.Sleep(time.Second)
		if node := w.nodeOf(t, "second"); node != "node" {
			t.Errorf("second is on %q: the place is still held", node)
		}
	})
}

// TestBindingWithoutAnswerKeepsItsPlace delays the answer to a binding and adds another pod, which must not get the
// capacity that the first may use.
func TestBindingWithoutAnswerKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.overfull = func(node string, pods []string) { t.Errorf("too much on %s: %v", node, pods) }
		w.fault = func() fault { return fault{answer: errors.New("i/o timeout"), never: true} }
		w.nodes.Add(testNode("node", "1"))
		stop := w.start(t, Options{})
		defer stop()
		w.pods.Add(testPod("first", "1"))
		time.Sleep(time.Second)
		w.pods.Add(testPod("second", "1"))
		time.Sleep(10 * time.Minute)
		if node := w.nodeOf(t, "second"); node != "" {
			t.Errorf("second got %s", node)
		}
		pod, _ := w.Read(t.Context(), keyOf("second"))
		if len(pod.Status.Conditions) != 1 || pod.Status.Conditions[0].Reason != corev1.PodReasonUnschedulable {
			t.Errorf("conditions of second: %+v", pod.Status.Conditions)
		}
		w.mu.Lock()
		w.fault = nil
		w.mu.Unlock()
		time.Sleep(maxPause)
		if node := w.nodeOf(t, "first"); node != "node" {
			t.Errorf("first is on %q", node)
		}
	})
}
