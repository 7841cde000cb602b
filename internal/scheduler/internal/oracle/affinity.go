package oracle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// selects reports whether an affinity term of owner selects other.
func (r *Cluster) selects(owner *corev1.Pod, t corev1.PodAffinityTerm, other *corev1.Pod) bool {
	in := slices.Contains(t.Namespaces, other.Namespace)
	if len(t.Namespaces) == 0 && t.NamespaceSelector == nil {
		in = owner.Namespace == other.Namespace
	}
	if t.NamespaceSelector != nil {
		s, _ := metav1.LabelSelectorAsSelector(t.NamespaceSelector)
		in = in || s.Matches(labels.Set(r.Namespaces[other.Namespace]))
	}
	s, _ := metav1.LabelSelectorAsSelector(t.LabelSelector)
	return in && s.Matches(labels.Set(other.Labels))
}

func together(pod *corev1.Pod) (required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		return a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	return nil, nil
}

func apart(pod *corev1.Pod) (required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		return a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	return nil, nil
}

// sameDomain reports whether a pod's node and a node have the same value of a label.
func (r *Cluster) sameDomain(pod *corev1.Pod, node *corev1.Node, key string) bool {
	other, ok := r.Nodes[pod.Spec.NodeName]
	if !ok {
		return false
	}
	a, okA := other.Labels[key]
	b, okB := node.Labels[key]
	return okA && okB && a == b
}

func (r *Cluster) affinityRefusal(pod *corev1.Pod, node *corev1.Node) string {
	near, _ := together(pod)
	matches := func(other *corev1.Pod) bool {
		for _, t := range near {
			if !r.selects(pod, t, other) {
				return false
			}
		}
		return true
	}
	satisfied, anywhere := true, false
	for _, t := range near {
		if _, ok := node.Labels[t.TopologyKey]; !ok {
			return "node(s) didn't match pod affinity rules"
		}
		found := false
		for _, other := range r.Pods {
			if !matches(other) {
				continue
			}
			found = found || r.sameDomain(other, node, t.TopologyKey)
			if there, ok := r.Nodes[other.Spec.NodeName]; ok && hasAll(there, []string{t.TopologyKey}) {
				anywhere = true
			}
		}
		satisfied = satisfied && found
	}
	if !satisfied && (anywhere || !matches(pod)) {
		return "node(s) didn't match pod affinity rules"
	}
	far, _ := apart(pod)
	for _, t := range far {
		for _, other := range r.Pods {
			if r.selects(pod, t, other) && r.sameDomain(other, node, t.TopologyKey) {
				return "node(s) didn't match pod anti-affinity rules"
			}
		}
	}
	for _, other := range r.Pods {
		far, _ := apart(other)
		for _, t := range far {
			if r.selects(other, t, pod) && r.sameDomain(other, node, t.TopologyKey) {
				return "node(s) didn't satisfy existing pods anti-affinity rules"
			}
		}
	}
	return ""
}

func (r *Cluster) affinityScores(pod *corev1.Pod, nodes []*corev1.Node) []int64 {
	raw := eachNode(nodes, func(node *corev1.Node) int64 {
		var sum int64
		count := func(owner, other *corev1.Pod, t corev1.PodAffinityTerm, weight int64, placed *corev1.Pod) {
			if r.selects(owner, t, other) && r.sameDomain(placed, node, t.TopologyKey) {
				sum += weight
			}
		}
		for _, other := range r.Pods {
			_, likes := together(pod)
			_, dislikes := apart(pod)
			needs, liked := together(other)
			_, disliked := apart(other)
			for _, t := range likes {
				count(pod, other, t.PodAffinityTerm, int64(t.Weight), other)
			}
			for _, t := range dislikes {
				count(pod, other, t.PodAffinityTerm, -int64(t.Weight), other)
			}
			for _, t := range needs {
				count(other, pod, t, 1, other)
			}
			for _, t := range liked {
				count(other, pod, t.PodAffinityTerm, int64(t.Weight), other)
			}
			for _, t := range disliked {
				count(other, pod, t.PodAffinityTerm, -int64(t.Weight), other)
			}
		}
		return sum
	})
	if len(raw) == 0 {
		return raw
	}
	low, high := slices.Min(raw), slices.Max(raw)
	for i := range raw {
		if low == high {
			raw[i] = 0
		} else {
			raw[i] = 100 * (raw[i] - low) / (high - low)
		}
	}
	return raw
}
