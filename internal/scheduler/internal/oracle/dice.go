package oracle

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Dice makes nodes and pods with random properties out of few values, so that many of them affect each other.
type Dice struct{ *rand.Rand }

// Pick returns a random element of a list.
func Pick[T any](d Dice, list ...T) T { return list[d.IntN(len(list))] }

// mostNodes is the number of different node names.
const mostNodes = 14

// NodeName returns a random node name.
func (d Dice) NodeName() string { return fmt.Sprintf("node-%02d", d.IntN(mostNodes)) }

// Node returns a random node.
func (d Dice) Node() *corev1.Node {
	name := d.NodeName()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if d.IntN(10) > 0 {
		node.Labels[corev1.LabelHostname] = name
	}
	if d.IntN(10) > 0 {
		node.Labels[corev1.LabelTopologyZone] = Pick(d, "east", "west", "north")
	}
	node.Labels["disk"] = Pick(d, "ssd", "hdd")
	node.Spec.Unschedulable = d.IntN(15) == 0
	if d.IntN(4) == 0 {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
			Key: Pick(d, "gpu", "spot"), Value: "yes",
			Effect: Pick(d, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute),
		})
	}
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(Pick(d, "4", "8")),
		corev1.ResourceMemory: resource.MustParse(Pick(d, "8Gi", "16Gi")),
		corev1.ResourcePods:   resource.MustParse(Pick(d, "6", "20")),
	}
	if d.IntN(3) == 0 {
		node.Status.Allocatable["example.com/device"] = resource.MustParse("2")
	}
	for _, image := range []string{"web:1", "db:1"} {
		if d.IntN(3) == 0 {
			node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{image}, SizeBytes: 700 << 20})
		}
	}
	return node
}

// Pod returns a random pod without a name.
func (d Dice) Pod() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: Pick(d, "default", "default", "other"),
		Labels:    map[string]string{"app": Pick(d, "x", "y", "z"), "tier": Pick(d, "1", "2")},
	}}
	c := corev1.Container{Name: "c", Image: Pick(d, "web:1", "db:1", "tool:1")}
	c.Resources.Requests = corev1.ResourceList{}
	if d.IntN(3) > 0 {
		c.Resources.Requests[corev1.ResourceCPU] = resource.MustParse(Pick(d, "100m", "500m", "1"))
	}
	if d.IntN(3) > 0 {
		c.Resources.Requests[corev1.ResourceMemory] = resource.MustParse(Pick(d, "128Mi", "1Gi"))
	}
	if d.IntN(8) == 0 {
		c.Resources.Requests["example.com/device"] = resource.MustParse("1")
	}
	if d.IntN(8) == 0 {
		c.Ports = []corev1.ContainerPort{{HostPort: Pick[int32](d, 80, 443), Protocol: "TCP"}}
	}
	pod.Spec.Containers = []corev1.Container{c}
	for _, wish := range []func(*corev1.Pod){d.wishNode, d.wishTolerations, d.wishSpread, d.wishCompany, d.wishDistance} {
		if d.IntN(3) == 0 {
			wish(pod)
		}
	}
	return pod
}

func (d Dice) wishNode(pod *corev1.Pod) {
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
		Key: Pick(d, "disk", corev1.LabelTopologyZone), Operator: Pick(d, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn),
		Values: []string{Pick(d, "ssd", "east"), "west"},
	}}}
	switch d.IntN(4) {
	case 3: // as in pods of daemon sets
		affinity(pod).NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
				Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{d.NodeName()},
			}}}},
		}}
	case 0:
		pod.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	case 1:
		affinity(pod).NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{term},
		}}
	case 2:
		affinity(pod).NodeAffinity = &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
			{Weight: 10, Preference: term},
			{Weight: 3, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpExists},
			}}},
		}}
	}
}

func affinity(pod *corev1.Pod) *corev1.Affinity {
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	return pod.Spec.Affinity
}

func (d Dice) wishTolerations(pod *corev1.Pod) {
	pod.Spec.Tolerations = []corev1.Toleration{Pick(d,
		corev1.Toleration{Operator: corev1.TolerationOpExists},
		corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpEqual, Value: "yes"},
		corev1.Toleration{Key: "spot", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	)}
}

func (d Dice) selector() *metav1.LabelSelector {
	if d.IntN(3) == 0 {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"tier": Pick(d, "1", "2")}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": Pick(d, "x", "y", "z")}}
}

func (d Dice) topology() string { return Pick(d, corev1.LabelHostname, corev1.LabelTopologyZone) }

func (d Dice) wishSpread(pod *corev1.Pod) {
	for range 1 + d.IntN(2) {
		c := corev1.TopologySpreadConstraint{
			MaxSkew: Pick[int32](d, 1, 2), TopologyKey: d.topology(), LabelSelector: d.selector(),
			WhenUnsatisfiable: Pick(d, corev1.DoNotSchedule, corev1.ScheduleAnyway),
		}
		if d.IntN(3) == 0 {
			c.MatchLabelKeys = []string{"tier"}
		}
		if d.IntN(3) == 0 {
			honor := corev1.NodeInclusionPolicyHonor
			c.NodeTaintsPolicy = &honor
		}
		if c.WhenUnsatisfiable == corev1.DoNotSchedule && d.IntN(3) == 0 {
			n := int32(3)
			c.MinDomains = &n
		}
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, c)
	}
}

func (d Dice) term() corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{TopologyKey: d.topology(), LabelSelector: d.selector()}
	switch d.IntN(4) {
	case 0:
		t.Namespaces = []string{"other"}
	case 1:
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": Pick(d, "a", "b")}}
	}
	return t
}

func (d Dice) wishCompany(pod *corev1.Pod) {
	a := &corev1.PodAffinity{}
	for range 1 + d.IntN(2) {
		if d.IntN(2) == 0 {
			a.RequiredDuringSchedulingIgnoredDuringExecution = append(a.RequiredDuringSchedulingIgnoredDuringExecution, d.term())
		} else {
			a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
				corev1.WeightedPodAffinityTerm{Weight: Pick[int32](d, 1, 50), PodAffinityTerm: d.term()})
		}
	}
	affinity(pod).PodAffinity = a
}

func (d Dice) wishDistance(pod *corev1.Pod) {
	a := &corev1.PodAntiAffinity{}
	if d.IntN(2) == 0 {
		a.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{d.term()}
	} else {
		a.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{Weight: 7, PodAffinityTerm: d.term()}}
	}
	affinity(pod).PodAntiAffinity = a
}
