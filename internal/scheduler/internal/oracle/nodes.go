package oracle

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// namedNode returns the node that a pod names in its affinity, like pods of daemon sets.
func namedNode(pod *corev1.Pod) string {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, f := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields {
			return f.Values[0]
		}
	}
	return ""
}

func toleratesAll(pod *corev1.Pod, taints []corev1.Taint) bool {
	for _, taint := range taints {
		if taint.Effect == "PreferNoSchedule" {
			continue
		}
		if !toleratesOne(pod, taint) {
			return false
		}
	}
	return true
}

func toleratesOne(pod *corev1.Pod, taint corev1.Taint) bool {
	for _, t := range pod.Spec.Tolerations {
		effect := t.Effect == "" || t.Effect == taint.Effect
		key := t.Key == "" || t.Key == taint.Key
		value := t.Operator == "Exists" || t.Value == taint.Value
		if effect && key && value {
			return true
		}
	}
	return false
}

func nodeWanted(pod *corev1.Pod, node *corev1.Node) bool {
	for k, v := range pod.Spec.NodeSelector {
		if node.Labels[k] != v {
			return false
		}
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if termWanted(term, node) {
			return true
		}
	}
	return false
}

func termWanted(term corev1.NodeSelectorTerm, node *corev1.Node) bool {
	if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
		return false
	}
	for _, e := range term.MatchExpressions {
		value, has := node.Labels[e.Key]
		ok := false
		switch e.Operator {
		case "In":
			ok = has && slices.Contains(e.Values, value)
		case "NotIn":
			ok = !has || !slices.Contains(e.Values, value)
		case "Exists":
			ok = has
		case "DoesNotExist":
			ok = !has
		}
		if !ok {
			return false
		}
	}
	for _, f := range term.MatchFields {
		if slices.Contains(f.Values, node.Name) != (f.Operator == "In") {
			return false
		}
	}
	return true
}

func hostPorts(pod *corev1.Pod) []int32 {
	var ports []int32
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.HostPort > 0 {
				ports = append(ports, p.HostPort)
			}
		}
	}
	return ports
}

func (r *Cluster) portsTaken(pod *corev1.Pod, node *corev1.Node) bool {
	for _, other := range r.PodsOn(node.Name) {
		for _, port := range hostPorts(other) {
			if slices.Contains(hostPorts(pod), port) {
				return true
			}
		}
	}
	return false
}

// asked returns the requests of a pod without init containers; zero is used for containers without a request.
func asked(pod *corev1.Pod, name corev1.ResourceName, zero int64) int64 {
	var sum int64
	for _, c := range pod.Spec.Containers {
		q, ok := c.Resources.Requests[name]
		switch {
		case !ok:
			sum += zero
		case name == corev1.ResourceCPU:
			sum += q.MilliValue()
		default:
			sum += q.Value()
		}
	}
	return sum
}

func has(node *corev1.Node, name corev1.ResourceName) int64 {
	q := node.Status.Allocatable[name]
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

func (r *Cluster) used(node *corev1.Node, name corev1.ResourceName, zero int64) int64 {
	var sum int64
	for _, pod := range r.PodsOn(node.Name) {
		sum += asked(pod, name, zero)
	}
	return sum
}

func (r *Cluster) short(pod *corev1.Pod, node *corev1.Node) []string {
	var reasons []string
	if int64(len(r.PodsOn(node.Name)))+1 > has(node, corev1.ResourcePods) {
		reasons = append(reasons, "Too many pods")
	}
	for _, name := range []corev1.ResourceName{"cpu", "memory", "example.com/device"} {
		if need := asked(pod, name, 0); need > 0 && need > has(node, name)-r.used(node, name, 0) {
			reasons = append(reasons, "Insufficient "+string(name))
		}
	}
	return reasons
}

func (r *Cluster) leastAllocated(pod *corev1.Pod, nodes []*corev1.Node) []int64 {
	return eachNode(nodes, func(node *corev1.Node) int64 {
		left := func(name corev1.ResourceName, zero int64) int64 {
			have := has(node, name)
			rest := have - r.used(node, name, zero) - asked(pod, name, zero)
			return max(0, rest*100/have)
		}
		return (left("cpu", 100) + left("memory", 200<<20)) / 2
	})
}

func (r *Cluster) balances(pod *corev1.Pod, nodes []*corev1.Node) []int64 {
	return eachNode(nodes, func(node *corev1.Node) int64 {
		if asked(pod, "cpu", 0) == 0 && asked(pod, "memory", 0) == 0 {
			return 0
		}
		balance := func(cpu, memory int64) int64 {
			a := math.Min(1, float64(r.used(node, "cpu", 0)+cpu)/float64(has(node, "cpu")))
			b := math.Min(1, float64(r.used(node, "memory", 0)+memory)/float64(has(node, "memory")))
			return int64((1 - math.Abs(a-b)/2) * 100)
		}
		return 50 + (50+balance(asked(pod, "cpu", 0), asked(pod, "memory", 0))-balance(0, 0))/2
	})
}

func (r *Cluster) imageScores(pod *corev1.Pod, nodes []*corev1.Node) []int64 {
	return eachNode(nodes, func(node *corev1.Node) int64 {
		var sum int64
		for _, c := range pod.Spec.Containers {
			if size, ok := imageSize(node, c.Image); ok {
				with := 0
				for _, other := range r.Nodes {
					if _, ok := imageSize(other, c.Image); ok {
						with++
					}
				}
				sum += int64(float64(size) * (float64(with) / float64(len(r.Nodes))))
			}
		}
		low, high := int64(23<<20), int64(1000<<20)*int64(len(pod.Spec.Containers))
		return 100 * (min(max(sum, low), high) - low) / (high - low)
	})
}

func imageSize(node *corev1.Node, name string) (int64, bool) {
	for _, image := range node.Status.Images {
		if slices.Contains(image.Names, name) {
			return image.SizeBytes, true
		}
	}
	return 0, false
}

func (r *Cluster) taintScores(pod *corev1.Pod, nodes []*corev1.Node) []int64 {
	raw := eachNode(nodes, func(node *corev1.Node) int64 {
		var count int64
		for _, taint := range node.Spec.Taints {
			if taint.Effect == "PreferNoSchedule" && !toleratesOne(pod, taint) {
				count++
			}
		}
		return count
	})
	most := highest(raw)
	for i := range raw {
		if most == 0 {
			raw[i] = 100
		} else {
			raw[i] = 100 - 100*raw[i]/most
		}
	}
	return raw
}

func (r *Cluster) nodePreferences(pod *corev1.Pod, nodes []*corev1.Node) []int64 {
	raw := eachNode(nodes, func(node *corev1.Node) int64 {
		var sum int64
		if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
			for _, p := range a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
				if termWanted(p.Preference, node) {
					sum += int64(p.Weight)
				}
			}
		}
		return sum
	})
	if most := highest(raw); most > 0 {
		for i := range raw {
			raw[i] = 100 * raw[i] / most
		}
	}
	return raw
}
