package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
	"github.com/millrace/millrace/internal/scheduler/rules"
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
		const message = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
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

// Of two pods that find no node, one was refused by a rule that new nodes could change, and the other by taints alone.
func TestPodsThatFindNoNodeAreToldOfNewTaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		tainted := func(node *corev1.Node, keys ...string) *corev1.Node {
			for _, key := range keys {
				node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
			}
			return node
		}
		w.nodes.Add(testNode("a", "4"))
		w.nodes.Add(tainted(testNode("b", "4"), "mine"))
		w.nodes.Add(tainted(testNode("c", "4"), "mine"))
		choosy := testPod("choosy", "1")
		choosy.Spec.NodeSelector = map[string]string{"none": "none"}
		w.pods.Add(choosy)
		defer w.start(t, Options{})()
		time.Sleep(time.Second)
		w.nodes.Modify(tainted(testNode("a", "4"), "mine"))
		time.Sleep(time.Second)
		w.pods.Add(testPod("modest", "1"))
		time.Sleep(time.Minute)
		w.nodes.Delete(testNode("c", "4"))
		w.nodes.Modify(tainted(testNode("b", "4"), "mine", "more"))
		time.Sleep(time.Minute)
		untolerated := func(all int) string {
			return fmt.Sprintf("0/%d nodes are available: %d node(s) had untolerated taint(s). preemption: 0/%d nodes are available: %d Preemption is not helpful for scheduling.", all, all, all, all)
		}
		want := []string{
			"Warning FailedScheduling choosy: 0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 node(s) had untolerated taint(s). " +
				"preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
			"Warning FailedScheduling choosy: " + untolerated(3),
			"Warning FailedScheduling modest: " + untolerated(3),
		}
		if got := w.eventLog(); !slices.Equal(got, want) {
			t.Errorf("events:\n%q\nwant\n%q", got, want)
		}
	})
}

func TestPodsOfOtherSchedulersAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.nodes.Add(testNode("node", "4"))
		for _, name := range []string{"mine", "another", "nobody"} {
			pod := testPod(name, "1")
			pod.Spec.SchedulerName = name
			w.pods.Add(pod)
		}
		stop := w.start(t, Options{Profiles: []Profile{{SchedulerName: "mine"}, {SchedulerName: "another"}}})
		defer stop()
		time.Sleep(time.Second)
		for name, want := range map[string]string{"mine": "node", "another": "node", "nobody": ""} {
			if got := w.nodeOf(t, name); got != want {
				t.Errorf("%s is on %q, want %q", name, got, want)
			}
		}
	})
}

func TestGatedPodWaitsAndIsSaidToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.nodes.Add(testNode("node", "4"))
		pod := testPod("gated", "1")
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
		w.pods.Add(pod)
		stop := w.start(t, Options{})
		defer stop()
		time.Sleep(time.Hour)
		pod, _ = w.Read(t.Context(), keyOf("gated"))
		if c := pod.Status.Conditions; pod.Spec.NodeName != "" || len(c) != 1 || c[0].Reason != "SchedulingGated" {
			t.Fatalf("on %q with conditions %+v", pod.Spec.NodeName, c)
		}
		pod.Spec.SchedulingGates = nil
		w.pods.Modify(pod)
		time.Sleep(time.Second)
		if node := w.nodeOf(t, "gated"); node != "node" {
			t.Errorf("on %q after its gate was opened", node)
		}
	})
}

func TestHigherPriorityGetsTheLastRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for i, name := range []string{"low", "high", "middle"} {
			pod := testPod(name, "1")
			priority := []int32{0, 1000, 10}[i]
			pod.Spec.Priority = &priority
			w.pods.Add(pod)
		}
		stop := w.start(t, Options{})
		defer stop()
		time.Sleep(time.Minute)
		pod, _ := w.Read(t.Context(), keyOf("low"))
		if c := pod.Status.Conditions; len(c) != 1 || c[0].Message != "no nodes available to schedule pods" {
			t.Errorf("conditions without nodes: %+v", c)
		}
		w.nodes.Add(testNode("node", "2"))
		time.Sleep(time.Minute)
		for name, want := range map[string]string{"high": "node", "middle": "node", "low": ""} {
			if got := w.nodeOf(t, name); got != want {
				t.Errorf("%s is on %q, want %q", name, got, want)
			}
		}
	})
}

// hook is a BeforeBind.
type hook struct {
	err    error
	called []string
}

func (h *hook) BeforeBind(_ context.Context, pod *cluster.Pod, node string) error {
	h.called = append(h.called, pod.Key.Name+" to "+node)
	err := h.err
	h.err = nil
	return err
}

func TestHooksAreCalledBeforeBinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.nodes.Add(testNode("node", "1"))
		w.pods.Add(testPod("small", "1"))
		h := &hook{err: errors.New("volume is not ready")}
		stop := w.start(t, Options{Profiles: []Profile{{BeforeBind: []BeforeBind{h}}}})
		defer stop()
		time.Sleep(500 * time.Millisecond)
		if node := w.nodeOf(t, "small"); node != "" {
			t.Fatalf("bound to %q though the hook failed", node)
		}
		time.Sleep(time.Second)
		w.pods.Add(testPod("large", "2"))
		time.Sleep(time.Second)
		want := []string{
			"Warning FailedScheduling small: binding rejected: volume is not ready",
			"Normal Scheduled small: Successfully assigned default/small to node",
			"Warning FailedScheduling large: 0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
		}
		if got := w.eventLog(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("events:\n%q\nwant\n%q", got, want)
		}
		if len(h.called) != 2 {
			t.Errorf("called %v", h.called)
		}
	})
}

// rackMates is a user's filter: pods with an annotation go to nodes with that label.
type rackMates struct{}

func (rackMates) Name() string                   { return "RackMates" }
func (rackMates) ReadPod(pod *corev1.Pod) string { return pod.Annotations["rack"] }

var otherRack = plugin.Verdict{Plugin: "RackMates", Reasons: []string{"node(s) were in another rack"}}

func (r rackMates) Filter(demand *cluster.Demand, node *cluster.Node) *plugin.Verdict {
	if rack := demand.Read(r.Name()); rack != "" && rack != node.Labels["rack"] {
		return &otherRack
	}
	return nil
}

func TestUsersCanAddAPluginThatReadsAnnotations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for i := range 4 {
			node := testNode(fmt.Sprintf("node-%d", i), "4")
			node.Labels["rack"] = fmt.Sprintf("rack-%d", i)
			w.nodes.Add(node)
		}
		for i := range 5 {
			pod := testPod(fmt.Sprintf("pod-%d", i), "1")
			pod.Annotations = map[string]string{"rack": fmt.Sprintf("rack-%d", i)}
			w.pods.Add(pod)
		}
		set := rules.Defaults()
		set.Filters = append(set.Filters, rackMates{})
		stop := w.start(t, Options{Profiles: []Profile{{Rules: set}}})
		defer stop()
		time.Sleep(time.Second)
		for i := range 4 {
			if got, want := w.nodeOf(t, fmt.Sprintf("pod-%d", i)), fmt.Sprintf("node-%d", i); got != want {
				t.Errorf("pod-%d is on %q, want %q", i, got, want)
			}
		}
		if events := w.eventLog(); !slices.Contains(events,
			"Warning FailedScheduling pod-4: 0/4 nodes are available: 4 node(s) were in another rack. preemption: 0/4 nodes are available: 4 No preemption victims found for incoming pod.") {
			t.Errorf("events: %q", events)
		}
	})
}

// oneEach is a user's cluster rule: no node gets a second pod with the same labels.
type oneEach struct{}

func (oneEach) Name() string { return "OneEach" }

var second = plugin.Verdict{Plugin: "OneEach", Reasons: []string{"node(s) had such a pod"}}

func (oneEach) Survey(shape *plugin.Shape, state plugin.Cluster) plugin.Survey {
	taken := map[string]bool{}
	for pod, node := range state.Pods() {
		if pod.Shape.Labels.String() == shape.Labels.String() {
			taken[node.Name] = true
		}
	}
	return plugin.Survey{Filter: func(n *cluster.Node) *plugin.Verdict {
		if taken[n.Name] {
			return &second
		}
		return nil
	}}
}

func TestUsersCanAddARuleThatLooksAtTheWholeCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for i := range 3 {
			w.nodes.Add(testNode(fmt.Sprintf("node-%d", i), "4"))
		}
		set := rules.Defaults()
		set.Relations = append(set.Relations, plugin.Weighted[plugin.Relational]{Plugin: oneEach{}, Weight: 1})
		stop := w.start(t, Options{Profiles: []Profile{{Rules: set}}})
		defer stop()
		for i := range 4 {
			w.pods.Add(testPod(fmt.Sprintf("pod-%d", i), "100m"))
		}
		time.Sleep(time.Second)
		nodes := map[string]int{}
		for _, pod := range w.pods.Objects() {
			nodes[pod.Spec.NodeName]++
		}
		for name, n := range nodes {
			if n != 1 {
				t.Errorf("%d pods on %q: %v", n, name, nodes)
			}
		}
		if events := w.eventLog(); !slices.ContainsFunc(events, func(e string) bool {
			return strings.Contains(e, ": 0/3 nodes are available: 3 node(s) had such a pod. preemption: ")
		}) {
			t.Errorf("events: %q", events)
		}
		w.pods.Delete(testPod("pod-0", "100m"))
		time.Sleep(time.Minute)
		if node := w.nodeOf(t, "pod-3"); node == "" {
			t.Error("the pod that waited was not tried again when its place became free")
		}
	})
}

func TestRunWithoutInformersSaysSo(t *testing.T) {
	if err := New(Options{}).Run(t.Context()); err == nil {
		t.Error("no error")
	}
}

// TestPodIsWokenThoughTheReasonChangesOnTheWay has a node that refuses a pod for two reasons, which disappear one after
// the other. The second was not reported while the first existed.
func TestPodIsWokenThoughTheReasonChangesOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		node := testNode("node", "1")
		full := testPod("full", "1")
		full.Spec.NodeName = "node"
		w.pods.Add(full)
		node.Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoSchedule}}
		w.nodes.Add(node)
		w.pods.Add(testPod("waiting", "1"))
		stop := w.start(t, patient)
		defer stop()
		time.Sleep(time.Minute)
		node.Spec.Taints = nil
		w.nodes.Modify(node)
		time.Sleep(time.Minute)
		w.pods.Delete(full)
		time.Sleep(time.Minute)
		if got := w.nodeOf(t, "waiting"); got != "node" {
			t.Errorf("waiting is on %q: %q", got, w.eventLog())
		}
	})
}

// TestPodThatBringsBalanceWakesThoseThatWaitForIt has pods that may not go to one zone before the other has more; only
// another pod can go there.
func TestPodThatBringsBalanceWakesThoseThatWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for _, zone := range []string{"a", "b"} {
			node := testNode("node-"+zone, "4")
			node.Labels[corev1.LabelTopologyZone] = zone
			if zone == "b" {
				node.Spec.Taints = []corev1.Taint{{Key: "private", Effect: corev1.TaintEffectNoSchedule}}
			}
			w.nodes.Add(node)
		}
		stop := w.start(t, patient)
		defer stop()
		spread := func(name string) *corev1.Pod {
			pod := testPod(name, "1")
			pod.Labels = map[string]string{"app": "web"}
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			}}
			return pod
		}
		w.pods.Add(spread("first"))
		w.pods.Add(spread("second"))
		time.Sleep(time.Minute)
		if one, other := w.nodeOf(t, "first"), w.nodeOf(t, "second"); one+other != "node-a" {
			t.Fatalf("first is on %q, second on %q: one should wait", one, other)
		}
		tolerant := spread("tolerant")
		tolerant.Spec.NodeName = "node-b"
		w.pods.Add(tolerant)
		time.Sleep(time.Minute)
		if one, other := w.nodeOf(t, "first"), w.nodeOf(t, "second"); one != "node-a" || other != "node-a" {
			t.Errorf("first is on %q, second on %q", one, other)
		}
	})
}

// TestPlacementIsEven fills nodes of two sizes with the pods of a service. Each zone must get its share and each node
// about what its size allows.
func TestPlacementIsEven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		const nodes, pods = 30, 300
		for i := range nodes {
			node := testNode(fmt.Sprintf("node-%02d", i), []string{"16", "32"}[i%2])
			node.Labels[corev1.LabelTopologyZone] = fmt.Sprintf("zone-%d", i%3)
			w.nodes.Add(node)
		}
		w.services.Add(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}},
		})
		stop := w.start(t, Options{})
		defer stop()
		for i := range pods {
			pod := testPod(fmt.Sprintf("web-%03d", i), "500m")
			pod.Labels = map[string]string{"app": "web"}
			w.pods.Add(pod)
		}
		time.Sleep(time.Minute)
		perNode, perZone := make(map[string]int), make(map[int]int)
		for _, pod := range w.pods.Objects() {
			var i int
			if _, err := fmt.Sscanf(pod.Spec.NodeName, "node-%d", &i); err != nil {
				t.Fatalf("%s has no node", pod.Name)
			}
			perNode[pod.Spec.NodeName]++
			perZone[i%3]++
		}
		for zone, n := range perZone {
			if n < pods/3-5 || n > pods/3+5 {
				t.Errorf("zone-%d has %d pods of %d: %v", zone, n, pods, perZone)
			}
		}
		for name, n := range perNode {
			if n < pods/nodes-3 || n > pods/nodes+3 {
				t.Errorf("%s has %d pods of %d: %v", name, n, pods, perNode)
			}
		}
	})
}
