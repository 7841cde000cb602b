package cluster

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/randomly"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/demand"
)

func aPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "a"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{asking("100m", "1Mi")}},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func asking(cpu, memory string) corev1.Container {
	return corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}}}
}

func on(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

func aNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourcePods: resource.MustParse("110"),
		}},
	}
}

func TestPodsThatLookAlikeShareTheirShape(t *testing.T) {
	var in Interner
	a, b := in.Shape(aPod("a")), in.Shape(aPod("b"))
	if a != b {
		t.Error("equal pods have two shapes")
	}
	for what, change := range map[string]func(*corev1.Pod){
		"labels":       func(p *corev1.Pod) { p.Labels["more"] = "yes" },
		"namespace":    func(p *corev1.Pod) { p.Namespace = "other" },
		"requests":     func(p *corev1.Pod) { p.Spec.Containers[0] = asking("200m", "1Mi") },
		"tolerations":  func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: "Exists"}} },
		"nodeSelector": func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} },
		"image":        func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" },
		"spread": func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1}}
		},
		"hostPort": func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} },
		"affinity": func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone"}},
			}}
		},
		"anti-affinity": func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone"}},
			}}
		},
	} {
		if in.Shape(aPod("c", change)) == a {
			t.Errorf("a pod with other %s has the same shape", what)
		}
	}
	if in.Shape(aPod("d", func(p *corev1.Pod) { p.Labels["more"] = "yes" })).Demand != a.Demand {
		t.Error("labels change what a pod asks of a node")
	}
	runtime.KeepAlive(b)
}

func TestShapesThatNobodyUsesAreForgotten(t *testing.T) {
	var in Interner
	for i := range 5000 {
		in.Shape(aPod("a", func(p *corev1.Pod) { p.Labels["n"] = fmt.Sprint(i) }))
		if i%500 == 0 {
			runtime.GC()
		}
	}
	if n := len(in.shapes.entries); n > 2500 {
		t.Errorf("%d shapes are kept", n)
	}
}

func TestAssumedPodCountsUntilForgottenOrConfirmed(t *testing.T) {
	var in Interner
	var s State
	node, change := s.SetNode(aNode("node"))
	if change&NodeAdded == 0 {
		t.Errorf("change %b", change)
	}
	s.Assume(in.Pod(aPod("a")), node)
	if node.Pods != 1 || node.Requested.MilliCPU != 100 || s.Assumed() != 1 {
		t.Errorf("after assuming: %+v", node)
	}
	if !s.Forget(Key{Namespace: "default", Name: "a"}, "a") || node.Pods != 0 || !node.Requested.Equal(demand.Resources{}) {
		t.Errorf("after forgetting: %+v", node)
	}
	s.Assume(in.Pod(aPod("a")), node)
	if got := s.Observe(in.Pod(aPod("a", on("node")))); got != PodPlaced || s.Assumed() != 0 {
		t.Errorf("confirming is change %b", got)
	}
	if s.Forget(Key{Namespace: "default", Name: "a"}, "a") || node.Pods != 1 {
		t.Error("a confirmed pod was forgotten")
	}
}

func TestPodsOfANodeThatIsNotKnownYetCountWhenItComes(t *testing.T) {
	var in Interner
	var s State
	s.Observe(in.Pod(aPod("a", on("node"))))
	if s.Nodes() != 0 {
		t.Error("a node is present that the API does not show")
	}
	node, _ := s.SetNode(aNode("node"))
	if node.Pods != 1 || s.Nodes() != 1 {
		t.Errorf("%+v", node)
	}
	s.RemoveNode("node")
	if n, ok := s.NodeNamed("node"); !ok || n.Present || n.Pods != 1 {
		t.Errorf("its pod was forgotten with it: %+v", n)
	}
	s.Remove(Key{Namespace: "default", Name: "a"})
	if _, ok := s.NodeNamed("node"); ok {
		t.Error("the node is kept though nobody knows it")
	}
}

func TestNodeThatSaysTheSameAgainIsNoChange(t *testing.T) {
	var s State
	s.SetNode(aNode("node"))
	head := s.Head()
	if _, change := s.SetNode(aNode("node")); change != 0 || s.Head() != head {
		t.Errorf("change %b", change)
	}
}

// TestCountsEqualWhatIsThere makes random changes and compares all counts with new sums.
func TestCountsEqualWhatIsThere(t *testing.T) {
	seed := randomly.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	var in Interner
	var s State
	replica := make(map[int32]int) // pods by node, updated from the log alone
	place := uint64(0)
	for step := range 20000 {
		name, node := fmt.Sprint(r.IntN(60)), fmt.Sprintf("node-%d", r.IntN(6))
		pod := aPod(name, func(p *corev1.Pod) {
			p.UID = types.UID(fmt.Sprint(name, r.IntN(2)))
			p.Labels["v"] = fmt.Sprint(r.IntN(3))
			if r.IntN(4) == 0 {
				p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			}
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: int32(1 + r.IntN(3))}}
		})
		switch r.IntN(7) {
		case 0:
			s.SetNode(aNode(node))
		case 1:
			s.RemoveNode(node)
		case 2:
			if n, ok := s.NodeNamed(node); ok {
				if _, _, _, placed := s.Placed(Key(types.NamespacedName{Namespace: "default", Name: name})); !placed {
					s.Assume(in.Pod(pod), n)
				}
			}
		case 3, 4:
			s.Observe(in.Pod(aPod(name, func(p *corev1.Pod) { *p = *pod }, on(node))))
		case 5:
			s.Remove(Key{Namespace: "default", Name: name})
		case 6:
			s.Refresh(in.Pod(pod))
		}
		checkCounts(t, &s)
		changed, ok := s.Since(place)
		if r.IntN(300) == 0 || step == 19999 {
			if !ok {
				clear(replica)
				for i := range s.Slots() {
					changed = append(changed, int32(i))
				}
			}
			for _, i := range changed {
				delete(replica, i)
				if n := s.Node(int(i)); n != nil {
					replica[i] = n.Pods
				}
			}
			place = s.Head()
			want := make(map[int32]int)
			for n := range s.All() {
				want[int32(n.Index)] = n.Pods
			}
			if !maps.Equal(replica, want) {
				t.Fatalf("seed %d: the log leads to %v, want %v", seed, replica, want)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d, step %d", seed, step)
		}
	}
}

func checkCounts(t *testing.T, s *State) {
	pods, cpu, ports := map[string]int{}, map[string]int64{}, map[string]int{}
	for pod, node := range s.Pods() {
		pods[node.Name]++
		cpu[node.Name] += pod.Shape.Requests.MilliCPU
		ports[node.Name] += len(pod.Shape.Ports)
	}
	present := 0
	for node := range s.All() {
		residents, taken := 0, 0
		for _, r := range node.Residents {
			residents += r.Count
		}
		for count := range maps.Values(node.Ports) {
			taken += count
		}
		if node.Pods != pods[node.Name] || residents != node.Pods || node.Requested.MilliCPU != cpu[node.Name] || taken != ports[node.Name] {
			t.Errorf("%s: %d pods, %d residents, %+v; want %d pods", node.Name, node.Pods, residents, node.Requested, pods[node.Name])
		}
		if node.Present {
			present++
		}
		if !node.Present && node.Pods == 0 {
			t.Errorf("%s is kept for nothing", node.Name)
		}
		if s.nodes[node.Index] != node || slices.Contains(s.free, node.Index) {
			t.Errorf("%s is not in its slot", node.Name)
		}
	}
	if present != s.Nodes() {
		t.Errorf("%d nodes are present, counted %d", present, s.Nodes())
	}
}
