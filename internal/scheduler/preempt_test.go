package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ranked returns a pod with a priority.
func ranked(name, cpu string, priority int32) *corev1.Pod {
	pod := testPod(name, cpu)
	pod.UID = types.UID("uid-" + name)
	pod.Spec.Priority = &priority
	pod.Labels = map[string]string{"app": name}
	return pod
}

// running returns a pod with a priority that has had a node for some minutes.
func running(name, cpu string, priority int32, node string, minutes int) *corev1.Pod {
	pod := ranked(name, cpu, priority)
	pod.Spec.NodeName = node
	started := metav1.NewTime(time.Now().Add(-time.Duration(minutes) * time.Minute))
	pod.Status.StartTime = &started
	return pod
}

// leaving returns the names of the victims.
func (w *world) leaving() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for _, pod := range w.pods.Objects() {
		if pod.DeletionTimestamp != nil {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (w *world) nominated(t *testing.T, name string) string {
	t.Helper()
	pod, err := w.Read(t.Context(), keyOf(name))
	if err != nil {
		t.Fatal(err)
	}
	return pod.Status.NominatedNodeName
}

func TestAPodWithALowerPriorityLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.nodes.Add(testNode("node", "2"))
		w.pods.Add(running("low", "1", 0, "node", 5))
		w.pods.Add(running("middle", "1", 5, "node", 5))
		defer w.start(t, Options{})()
		w.pods.Add(ranked("high", "1", 10))
		time.Sleep(time.Second)
		if got := w.leaving(); !slices.Equal(got, []string{"low"}) {
			t.Fatalf("leaving: %v", got)
		}
		if node := w.nominated(t, "high"); node != "node" {
			t.Errorf("nominated to %q", node)
		}
		victim, _ := w.Read(t.Context(), keyOf("low"))
		const message = "default-scheduler: preempting to accommodate a higher priority pod"
		if c := victim.Status.Conditions[0]; c.Type != corev1.DisruptionTarget || c.Reason != "PreemptionByScheduler" || c.Message != message {
			t.Errorf("condition of the victim: %+v", c)
		}
		// While the victim terminates no other pod is preempted, and pods with a lower priority do not get the
		// capacity.
		w.pods.Add(ranked("late", "1", 9))
		time.Sleep(time.Minute)
		if got := w.leaving(); !slices.Equal(got, []string{"low", "middle"}) {
			t.Errorf("leaving: %v", got)
		}
		w.pods.Delete(testPod("low", "1"))
		time.Sleep(time.Minute)
		if high, late := w.nodeOf(t, "high"), w.nodeOf(t, "late"); high != "node" || late != "" {
			t.Errorf("high is on %q, late on %q", high, late)
		}
		w.pods.Delete(testPod("middle", "1"))
		time.Sleep(time.Minute)
		if late := w.nodeOf(t, "late"); late != "node" {
			t.Errorf("late is on %q", late)
		}
		want := []string{
			"Warning FailedScheduling high: 0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on node node, preempting 1 victims",
			"Normal Preempted low: Preempted by pod uid-high on node node",
		}
		if got := w.eventLog(); !slices.Equal(got[:2], want) {
			t.Errorf("events: %q", got)
		}
	})
}

func TestWhoIsPreempted(t *testing.T) {
	never := corev1.PreemptNever
	budget := func(w *world, app string, allowed int32) {
		w.budgets.Add(&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
		})
	}
	for _, c := range []struct {
		name  string
		setup func(*world)
		pod   func(*corev1.Pod)
		one   bool   // there is only n1
		want  string // the victim
		note  string // the end of the event's message
	}{
		{
			name:  "nobody of the same priority",
			setup: func(w *world) { w.pods.Add(running("a", "1", 10, "n1", 1)); w.pods.Add(running("b", "1", 10, "n2", 1)) },
			note:  "2 No preemption victims found for incoming pod.",
		},
		{
			name: "the lower priority",
			setup: func(w *world) {
				w.pods.Add(running("a", "1", 1, "n1", 1))
				w.pods.Add(running("b", "1", 2, "n2", 1))
			},
			want: "a",
		},
		{
			name: "one and not two",
			setup: func(w *world) {
				w.pods.Add(running("a", "500m", 1, "n1", 1))
				w.pods.Add(running("b", "500m", 1, "n1", 1))
				w.pods.Add(running("c", "1", 1, "n2", 1))
			},
			want: "c",
		},
		{
			name: "the youngest",
			setup: func(w *world) {
				w.pods.Add(running("a", "1", 1, "n1", 30))
				w.pods.Add(running("b", "1", 1, "n2", 10))
			},
			want: "b",
		},
		{
			name: "whose budget allows it, though its priority is higher",
			setup: func(w *world) {
				w.pods.Add(running("a", "1", 1, "n1", 1))
				w.pods.Add(running("b", "1", 2, "n2", 1))
				budget(w, "a", 0)
				budget(w, "b", 1)
			},
			want: "b",
		},
		{
			name: "whom its budget protects, if there is no other way",
			setup: func(w *world) {
				w.pods.Add(running("a", "1", 1, "n1", 1))
				w.pods.Add(running("b", "1", 10, "n2", 1))
				budget(w, "a", 0)
			},
			want: "a",
		},
		{
			name:  "nobody, if the pod never preempts",
			setup: func(w *world) { w.pods.Add(running("a", "1", 1, "n1", 1)); w.pods.Add(running("b", "1", 1, "n2", 1)) },
			pod:   func(p *corev1.Pod) { p.Spec.PreemptionPolicy = &never },
			note:  "preemption: not eligible due to preemptionPolicy=Never.",
		},
		{
			name:  "nobody where the node itself does not suit",
			setup: func(w *world) { w.pods.Add(running("a", "1", 1, "n1", 1)); w.pods.Add(running("b", "1", 10, "n2", 1)) },
			pod:   func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "n2"} },
			note:  "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.",
		},
		{
			name: "who keeps the pod away",
			setup: func(w *world) {
				a := running("a", "100m", 1, "n1", 1)
				a.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
						LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "high"}}, TopologyKey: corev1.LabelHostname,
					}},
				}}
				w.pods.Add(a)
				w.pods.Add(running("b", "100m", 0, "n1", 1))
			},
			pod:  func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = nil },
			one:  true,
			want: "a",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.nodes.Add(testNode("n1", "1"))
				if !c.one {
					w.nodes.Add(testNode("n2", "1"))
				}
				c.setup(w)
				pod := ranked("high", "1", 10)
				if c.pod != nil {
					c.pod(pod)
				}
				w.pods.Add(pod)
				defer w.start(t, Options{})()
				time.Sleep(time.Second)
				if got := strings.Join(w.leaving(), " "); got != c.want {
					t.Errorf("%q leave, want %q: %q", got, c.want, w.eventLog())
				}
				if events := w.eventLog(); len(events) == 0 || !strings.HasSuffix(events[0], c.note) {
					t.Errorf("events: %q", events)
				}
			})
		})
	}
}

// A preemption that fails is tried again, and the pod gets its node in the end.
func TestAPreemptionThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.nodes.Add(testNode("node", "1"))
		w.pods.Add(running("low", "1", 0, "node", 5))
		fails := 2
		w.preemptFault = func() error {
			if fails--; fails >= 0 {
				return errors.New("the server is away")
			}
			return nil
		}
		w.pods.Add(ranked("high", "1", 10))
		defer w.start(t, Options{})()
		time.Sleep(time.Minute)
		if got := w.leaving(); !slices.Equal(got, []string{"low"}) {
			t.Fatalf("leaving: %v; %q", got, w.eventLog())
		}
		w.pods.Delete(testPod("low", "1"))
		time.Sleep(time.Minute)
		if node := w.nodeOf(t, "high"); node != "node" || w.nominated(t, "high") != "node" {
			t.Errorf("high is on %q", node)
		}
	})
}

// Many pods preempt at once: there are as many victims as pods, each pod gets the capacity that was freed for it, and
// ordinary pods are placed elsewhere meanwhile.
func TestManyPreemptAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.overfull = func(node string, pods []string) {
			if len(pods) > 8 { // 4 terminating ones may still exist
				t.Errorf("%s has %v", node, pods)
			}
		}
		const nodes, each, high = 20, 4, 30
		for n := range nodes {
			w.nodes.Add(testNode(fmt.Sprint("n", n), "4"))
			for i := range each {
				w.pods.Add(running(fmt.Sprint("low-", n, "-", i), "1", int32(i%2), fmt.Sprint("n", n), n+i))
			}
		}
		defer w.start(t, Options{})()
		for i := range high {
			w.pods.Add(ranked(fmt.Sprint("high-", i), "1", 10))
		}
		time.Sleep(time.Minute)
		gone := w.leaving()
		if len(gone) != high {
			t.Fatalf("%d leave for %d: %v", len(gone), high, gone)
		}
		for _, name := range gone {
			w.pods.Delete(testPod(name, "1"))
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		for i := range high {
			if w.nodeOf(t, fmt.Sprint("high-", i)) == "" {
				t.Errorf("high-%d has no node", i)
			}
		}
	})
}

// Capacity that is kept for a nominated pod is refused to others, again and again, and theirs as soon as that pod is
// gone.
func TestCapacityForANominatedPodIsFreeWithoutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.nodes.Add(testNode("node", "2"))
		high := ranked("high", "2", 10)
		high.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}}
		high.Status.NominatedNodeName = "node"
		w.pods.Add(high)
		for _, name := range []string{"a", "b"} {
			w.pods.Add(ranked(name, "1", 0))
		}
		w.pods.Add(ranked("more-important", "1", 20))
		defer w.start(t, Options{})()
		time.Sleep(time.Minute)
		if a, b, c := w.nodeOf(t, "a"), w.nodeOf(t, "b"), w.nodeOf(t, "more-important"); a != "" || b != "" || c != "node" {
			t.Fatalf("a is on %q, b on %q, the more important one on %q", a, b, c)
		}
		w.pods.Delete(high)
		time.Sleep(time.Minute)
		if a, b := w.nodeOf(t, "a"), w.nodeOf(t, "b"); (a == "node") == (b == "node") {
			t.Errorf("a is on %q, b on %q, want one on the node", a, b)
		}
	})
}
