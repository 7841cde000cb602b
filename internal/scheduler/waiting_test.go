package scheduler

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/randomly"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/scheduler/internal/oracle"
)

// TestNoPodWaitsThatCouldHaveANode lets pods with all kinds of requirements wait for nodes and for each other, while
// everything changes. No pod is tried again without a reason here. So a pod that waits in the end although a node is
// suitable was not woken when it should have been.
func TestNoPodWaitsThatCouldHaveANode(t *testing.T) {
	seed := randomly.Seed(t)
	waited, placed := 0, 0
	for i := range uint64(12) {
		synctest.Test(t, func(t *testing.T) {
			w, p := waiting(t, seed+i)
			waited, placed = waited+w, placed+p
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed+i)
		}
	}
	if waited == 0 || placed == 0 {
		t.Errorf("the story is too simple: %d pods wait, %d have nodes", waited, placed)
	}
}

func waiting(t *testing.T, seed uint64) (waiting, placed int) {
	d := oracle.Dice{Rand: rand.New(rand.NewPCG(seed, 4))}
	w := newWorld()
	var templates []*corev1.Pod
	for range 15 {
		templates = append(templates, d.Pod())
	}
	for range 5 {
		w.nodes.Modify(d.Node())
	}
	stop := w.start(t, patient)
	for step := range 60 {
		change(w, d, templates, step)
	}
	// From here on one change at a time, so that no other change can have woken a pod.
	for step := range 40 {
		change(w, d, templates, 60+step)
		time.Sleep(time.Minute)
		n, m := judgeWaiting(t, w)
		waiting, placed = waiting+n, placed+m
		if t.Failed() {
			break
		}
	}
	stop()
	return waiting, placed
}

func change(w *world, d oracle.Dice, templates []*corev1.Pod, step int) {
	switch n := d.IntN(100); {
	case n < 40:
		pod := oracle.Pick(d, templates...).DeepCopy()
		pod.Name = fmt.Sprintf("pod-%d", step)
		w.pods.Add(pod)
	case n < 60:
		if pods := w.pods.Objects(); len(pods) > 0 {
			w.pods.Delete(oracle.Pick(d, pods...))
		}
	case n < 75:
		w.nodes.Modify(d.Node())
	case n < 80:
		if nodes := w.nodes.Objects(); len(nodes) > 0 {
			w.nodes.Delete(oracle.Pick(d, nodes...))
		}
	case n < 85:
		w.namespaces.Modify(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: oracle.Pick(d, "default", "other"), Labels: map[string]string{"team": oracle.Pick(d, "a", "b")},
		}})
	case n < 90: // another label on a pod that may be placed
		if pods := w.pods.Objects(); len(pods) > 0 {
			pod := oracle.Pick(d, pods...)
			pod.Labels["app"] = oracle.Pick(d, "x", "y", "z")
			w.pods.Modify(pod)
		}
	case n < 92:
		w.pods.EndWatches(errors.New("connection reset"))
	default:
		time.Sleep(time.Duration(d.IntN(5000)) * time.Millisecond)
	}
}

func judgeWaiting(t *testing.T, w *world) (waiting, placed int) {
	c := oracle.New()
	for _, node := range w.nodes.Objects() {
		c.Nodes[node.Name] = node
	}
	for _, namespace := range w.namespaces.Objects() {
		c.Namespaces[namespace.Name] = namespace.Labels
	}
	var without []*corev1.Pod
	for _, pod := range w.pods.Objects() {
		if pod.Spec.NodeName != "" {
			c.Pods[pod.Name] = pod
		} else {
			without = append(without, pod)
		}
	}
	for _, pod := range without {
		if _, totals := c.Evaluate(pod); len(totals) > 0 {
			t.Errorf("%s waits, though it could go to %v: %+v", pod.Name, totals, pod.Status.Conditions)
		}
	}
	return len(without), len(c.Pods)
}
