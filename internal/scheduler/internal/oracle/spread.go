package oracle

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func (r *Cluster) constraints(pod *corev1.Pod) (constraints []corev1.TopologySpreadConstraint, own bool) {
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		return pod.Spec.TopologySpreadConstraints, true
	}
	selector := make(map[string]string)
	for _, service := range r.Services {
		if pod.Namespace == "default" && labels.SelectorFromSet(service).Matches(labels.Set(pod.Labels)) {
			for k, v := range service {
				selector[k] = v
			}
		}
	}
	if len(selector) == 0 {
		return nil, false
	}
	for _, c := range []struct {
		key  string
		skew int32
	}{{corev1.LabelHostname, 3}, {corev1.LabelTopologyZone, 5}} {
		constraints = append(constraints, corev1.TopologySpreadConstraint{
			TopologyKey: c.key, MaxSkew: c.skew, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: selector},
		})
	}
	return constraints, false
}

// counts returns the number of pods for each value of the constraint's key, on the nodes that count.
func (r *Cluster) counts(pod *corev1.Pod, c corev1.TopologySpreadConstraint, needed []string) map[string]int64 {
	counts := make(map[string]int64)
	selector := spreadSelector(pod, c)
	for _, node := range r.Nodes {
		value, ok := node.Labels[c.TopologyKey]
		if !ok || !hasAll(node, needed) || !nodeWanted(pod, node) {
			continue
		}
		if c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor && !toleratesAll(pod, node.Spec.Taints) {
			continue
		}
		counts[value] += 0
		for _, other := range r.PodsOn(node.Name) {
			if other.Namespace == pod.Namespace && other.DeletionTimestamp == nil && selector.Matches(labels.Set(other.Labels)) {
				counts[value]++
			}
		}
	}
	return counts
}

func spreadSelector(pod *corev1.Pod, c corev1.TopologySpreadConstraint) labels.Selector {
	s, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		panic(err)
	}
	for _, key := range c.MatchLabelKeys {
		if value, ok := pod.Labels[key]; ok {
			more, _ := labels.SelectorFromSet(labels.Set{key: value}).Requirements()
			s = s.Add(more...)
		}
	}
	return s
}

func hasAll(node *corev1.Node, keys []string) bool {
	for _, key := range keys {
		if _, ok := node.Labels[key]; !ok {
			return false
		}
	}
	return true
}

func split(constraints []corev1.TopologySpreadConstraint, action corev1.UnsatisfiableConstraintAction) (list []corev1.TopologySpreadConstraint, keys []string) {
	for _, c := range constraints {
		if c.WhenUnsatisfiable == action {
			list, keys = append(list, c), append(keys, c.TopologyKey)
		}
	}
	return list, keys
}

func (r *Cluster) spreadRefusal(pod *corev1.Pod, node *corev1.Node) string {
	all, _ := r.constraints(pod)
	hard, keys := split(all, corev1.DoNotSchedule)
	for _, c := range hard {
		value, ok := node.Labels[c.TopologyKey]
		if !ok {
			return "node(s) didn't match pod topology spread constraints (missing required label)"
		}
		counts := r.counts(pod, c, keys)
		least := int64(math.MaxInt32)
		for _, n := range counts {
			least = min(least, n)
		}
		if c.MinDomains != nil && len(counts) < int(*c.MinDomains) {
			least = 0
		}
		self := int64(0)
		if spreadSelector(pod, c).Matches(labels.Set(pod.Labels)) {
			self = 1
		}
		if counts[value]+self-least > int64(c.MaxSkew) {
			return "node(s) didn't match pod topology spread constraints"
		}
	}
	return ""
}

func (r *Cluster) spreadScores(pod *corev1.Pod, nodes []*corev1.Node) []int64 {
	all, own := r.constraints(pod)
	soft, keys := split(all, corev1.ScheduleAnyway)
	if len(soft) == 0 {
		return make([]int64, len(nodes))
	}
	needed := keys
	if !own {
		needed = nil
	}
	sums := make([]float64, len(nodes))
	for _, c := range soft {
		counts := r.counts(pod, c, needed)
		for i, node := range nodes {
			if value, ok := node.Labels[c.TopologyKey]; ok {
				sums[i] += float64(counts[value])*math.Log(float64(len(counts)+2)) + float64(c.MaxSkew-1)
			}
		}
	}
	scores := make([]int64, len(nodes))
	low, high := int64(math.MaxInt64), int64(0)
	for i, node := range nodes {
		scores[i] = int64(math.Round(sums[i]))
		if hasAll(node, needed) {
			low, high = min(low, scores[i]), max(high, scores[i])
		}
	}
	for i, node := range nodes {
		switch {
		case !hasAll(node, needed):
			scores[i] = 0
		case high == 0:
			scores[i] = 100
		default:
			scores[i] = 100 * (high + low - scores[i]) / high
		}
	}
	return scores
}
