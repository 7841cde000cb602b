package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/randomly"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/placement"
)

var whole = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("8Gi")}

// zoned places pods on nodes of three zones, and counts the pods in each.
type zoned struct {
	*testing.T
	state    cluster.State
	interner cluster.Interner
	engine   *placement.Engine
	nodes    int
	pods     int
}

func newZoned(t *testing.T) *zoned {
	z := &zoned{T: t}
	seed := randomly.Seed(t)
	z.engine = placement.New(&z.state, defaultRules(), rand.New(rand.NewPCG(seed, 1)))
	return z
}

func (z *zoned) grow(zone, count int) {
	for range count {
		node := benchNode(z.nodes)
		node.Labels[corev1.LabelTopologyZone] = fmt.Sprint(zone)
		z.state.SetNode(node)
		z.nodes++
	}
}

func (z *zoned) place(count int, set func(*corev1.Pod)) []int {
	placed := make([]int, 3)
	for range count {
		z.pods++
		pod := benchPod(z.pods)
		pod.Spec.Containers[0].Resources.Requests = whole // so large that rounding cannot hide the pods of a node
		set(pod)
		parsed := z.interner.Pod(pod)
		node, failure := z.engine.Place(parsed.Shape)
		if failure != nil {
			z.Fatal(failure)
		}
		z.state.Assume(parsed, node)
		var zone int
		fmt.Sscan(node.Labels[corev1.LabelTopologyZone], &zone)
		placed[zone]++
	}
	return placed
}

func apart(counts []int) int { return slices.Max(counts) - slices.Min(counts) }

func TestEqualZonesGetEquallyManyPods(t *testing.T) {
	for name, set := range map[string]func(*corev1.Pod){
		"plain":   func(*corev1.Pod) {},
		"service": func(pod *corev1.Pod) { pod.Labels["served"] = "yes" },
		"spread":  func(pod *corev1.Pod) { spreadOver(pod, corev1.LabelHostname) },
	} {
		t.Run(name, func(t *testing.T) {
			z := newZoned(t)
			for zone := range 3 {
				z.grow(zone, 200) // one zone after the other: the order of nodes must not matter
			}
			for range 5 {
				if counts := z.place(90, set); apart(counts) > 4 {
					t.Errorf("90 pods went to the zones as %v", counts)
				}
			}
		})
	}
}

func TestEachKindOfPodTakesTurnsOfItsOwn(t *testing.T) {
	z := newZoned(t)
	for zone := range 3 {
		z.grow(zone, 200)
	}
	big := func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Requests = nil }
	var counts []int
	for range 90 { // with one shared order, each kind would go where the other does not
		one := z.place(1, big)
		z.place(2, func(*corev1.Pod) {})
		counts = sum(counts, one)
	}
	if apart(counts) > 4 {
		t.Errorf("90 pods went to the zones as %v", counts)
	}
}

func sum(a, b []int) []int {
	if a == nil {
		return b
	}
	for i := range a {
		a[i] += b[i]
	}
	return a
}

func TestAZoneThatHadNoRoomGetsNoFloodOfPods(t *testing.T) {
	z := newZoned(t)
	z.grow(0, 300)
	z.grow(1, 300)
	nothing := func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Requests = nil }
	z.grow(2, 1)
	z.place(601, nothing) // one on each node
	for zone := range 3 {
		z.grow(zone, 100)
	}
	if counts := z.place(120, nothing); counts[2] > 60 {
		t.Errorf("120 pods went to the zones as %v", counts)
	}
}
