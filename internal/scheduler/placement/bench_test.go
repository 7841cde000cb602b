package placement_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/cputime"
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/placement"
)

// BenchmarkPlace measures decisions: parsing, placing and assuming pods, without the API.
func BenchmarkPlace(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		for _, kind := range []struct {
			name string
			set  func(pod *corev1.Pod)
		}{
			{"plain", func(*corev1.Pod) {}},
			{"service", func(pod *corev1.Pod) { pod.Labels["served"] = "yes" }},
			{"zones", func(pod *corev1.Pod) { spreadOver(pod, corev1.LabelTopologyZone) }},
			{"hosts", func(pod *corev1.Pod) { spreadOver(pod, corev1.LabelHostname) }},
			{"apart", func(pod *corev1.Pod) {
				pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
					PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
						Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{
							TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
						},
					}},
				}}
			}},
			{"unique", func(pod *corev1.Pod) { pod.Labels["only"] = pod.Name }},
		} {
			b.Run(fmt.Sprintf("%s/nodes=%d", kind.name, nodes), func(b *testing.B) {
				benchmarkPlace(b, nodes, kind.set)
			})
		}
	}
}

func spreadOver(pod *corev1.Pod, key string) {
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
	}}
}

func benchmarkPlace(b *testing.B, nodes int, set func(*corev1.Pod)) {
	var state cluster.State
	var interner cluster.Interner
	for i := range nodes {
		state.SetNode(benchNode(i))
	}
	state.SetService("default", "service", labels.SelectorFromSet(labels.Set{"served": "yes"}))
	engine := placement.New(&state, defaultRules(), rand.New(rand.NewPCG(1, 1)))
	var placed []cluster.Key
	n := 0
	b.ReportAllocs()
	begun := cputime.Process()
	defer func() { b.ReportMetric(float64(cputime.Process()-begun)/float64(b.N), "cpu-ns/op") }()
	for b.Loop() {
		n++
		pod := benchPod(n)
		set(pod)
		parsed := interner.Pod(pod)
		node, failure := engine.Place(parsed.Shape)
		if failure != nil {
			b.Fatal(failure)
		}
		state.Assume(parsed, node)
		if placed = append(placed, parsed.Key); len(placed) > 20*nodes {
			b.StopTimer()
			for _, key := range placed {
				state.Remove(key)
			}
			placed = placed[:0]
			b.StartTimer()
		}
	}
}

func benchNode(i int) *corev1.Node {
	name := fmt.Sprintf("node-%05d", i)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%3),
			corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"),
			corev1.ResourcePods: resource.MustParse("110"),
		}},
	}
}

var benchRequests = corev1.ResourceList{
	corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
}

func benchPod(n int) *corev1.Pod {
	name := fmt.Sprintf("web-5d8f9-%07d", n)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name),
			Labels: map[string]string{"app": "web", "pod-template-hash": "5d8f9"},
		},
		Spec: corev1.PodSpec{
			Containers:  []corev1.Container{{Name: "web", Image: "web:1", Resources: corev1.ResourceRequirements{Requests: benchRequests}}},
			Tolerations: []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists}},
		},
	}
}
