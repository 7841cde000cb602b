package placement_test

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// reference is a cluster as the API shows it, and the plainest way of finding
// the best node: look at every node, and for each at every pod.
type reference struct {
	nodes      map[string]*corev1.Node
	pods       map[string]*corev1.Pod // placed ones, by name
	namespaces map[string]map[string]string
	services   map[string]map[string]string // of namespace "default"
}

func (r *reference) nodeNames() []string {
	var names []string
	for name := range r.nodes {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func (r *reference) podsOn(node string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range r.pods {
		if pod.Spec.NodeName == node {
			pods = append(pods, pod)
		}
	}
	return pods
}

// judge returns the reasons of refusal for each node, or the totals of those that are left.
func (r *reference) judge(pod *corev1.Pod) (refusals map[string][]string, totals map[string]int64) {
	refusals, totals = make(map[string][]string), make(map[string]int64)
	var left []*corev1.Node
	for _, name := range r.nodeNames() {
		node := r.nodes[name]
		if reasons := r.refuse(pod, node); len(reasons) > 0 {
			refusals[name] = reasons
			continue
		}
		left = append(left, node)
	}
	for _, s := range []struct {
		weight int64
		scores []int64
	}{
		{3, r.taintScores(pod, left)},
		{2, r.nodePreferences(pod, left)},
		{2, r.spreadScores(pod, left)},
		{2, r.affinityScores(pod, left)},
		{1, r.leastAllocated(pod, left)},
		{1, r.balances(pod, left)},
		{1, r.imageScores(pod, left)},
	} {
		for i, node := range left {
			totals[node.Name] += s.weight * s.scores[i]
		}
	}
	return refusals, totals
}

func (r *reference) refuse(pod *corev1.Pod, node *corev1.Node) []string {
	if name := namedNode(pod); name != "" && name != node.Name {
		return []string{"node(s) didn't satisfy plugin(s) [NodeAffinity]"}
	}
	if node.Spec.Unschedulable && !toleratesAll(pod, []corev1.Taint{{Key: "node.kubernetes.io/unschedulable", Effect: "NoSchedule"}}) {
		return []string{"node(s) were unschedulable"}
	}
	if !toleratesAll(pod, node.Spec.Taints) {
		return []string{"node(s) had untolerated taint(s)"}
	}
	if !nodeWanted(pod, node) {
		return []string{"node(s) didn't match Pod's node affinity/selector"}
	}
	if r.portsTaken(pod, node) {
		return []string{"node(s) didn't have free ports for the requested pod ports"}
	}
	if reasons := r.short(pod, node); len(reasons) > 0 {
		return reasons
	}
	if reason := r.spreadRefusal(pod, node); reason != "" {
		return []string{reason}
	}
	if reason := r.affinityRefusal(pod, node); reason != "" {
		return []string{reason}
	}
	return nil
}

// namedNode returns the node that a pod names, as those of daemon sets do.
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

func (r *reference) portsTaken(pod *corev1.Pod, node *corev1.Node) bool {
	for _, other := range r.podsOn(node.Name) {
		for _, port := range hostPorts(other) {
			if slices.Contains(hostPorts(pod), port) {
				return true
			}
		}
	}
	return false
}

// asked returns the requests of a pod whose containers are plain; zero is what a container without a request counts.
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

func (r *reference) used(node *corev1.Node, name corev1.ResourceName, zero int64) int64 {
	var sum int64
	for _, pod := range r.podsOn(node.Name) {
		sum += asked(pod, name, zero)
	}
	return sum
}

func (r *reference) short(pod *corev1.Pod, node *corev1.Node) []string {
	var reasons []string
	if int64(len(r.podsOn(node.Name)))+1 > has(node, corev1.ResourcePods) {
		reasons = append(reasons, "Too many pods")
	}
	for _, name := range []corev1.ResourceName{"cpu", "memory", "example.com/device"} {
		if need := asked(pod, name, 0); need > 0 && need > has(node, name)-r.used(node, name, 0) {
			reasons = append(reasons, "Insufficient "+string(name))
		}
	}
	return reasons
}

func (r *reference) leastAllocated(pod *corev1.Pod, nodes []*corev1.Node) []int64 {
	return eachNode(nodes, func(node *corev1.Node) int64 {
		left := func(name corev1.ResourceName, zero int64) int64 {
			have := has(node, name)
			rest := have - r.used(node, name, zero) - asked(pod, name, zero)
			return max(0, rest*100/have)
		}
		return (left("cpu", 100) + left("memory", 200<<20)) / 2
	})
}

func (r *reference) balances(pod *corev1.Pod, nodes []*corev1.Node) []int64 {
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

func (r *reference) imageScores(pod *corev1.Pod, nodes []*corev1.Node) []int64 {
	return eachNode(nodes, func(node *corev1.Node) int64 {
		var sum int64
		for _, c := range pod.Spec.Containers {
			if size, ok := imageSize(node, c.Image); ok {
				with := 0
				for _, other := range r.nodes {
					if _, ok := imageSize(other, c.Image); ok {
						with++
					}
				}
				sum += int64(float64(size) * (float64(with) / float64(len(r.nodes))))
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

func (r *reference) taintScores(pod *corev1.Pod, nodes []*corev1.Node) []int64 {
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

func (r *reference) nodePreferences(pod *corev1.Pod, nodes []*corev1.Node) []int64 {
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

func (r *reference) constraints(pod *corev1.Pod) (constraints []corev1.TopologySpreadConstraint, own bool) {
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		return pod.Spec.TopologySpreadConstraints, true
	}
	selector := make(map[string]string)
	for _, service := range r.services {
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

// counts returns how many pods each value of the constraint's key has, among the nodes that count.
func (r *reference) counts(pod *corev1.Pod, c corev1.TopologySpreadConstraint, needed []string) map[string]int64 {
	counts := make(map[string]int64)
	selector := spreadSelector(pod, c)
	for _, node := range r.nodes {
		value, ok := node.Labels[c.TopologyKey]
		if !ok || !hasAll(node, needed) || !nodeWanted(pod, node) {
			continue
		}
		if c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor && !toleratesAll(pod, node.Spec.Taints) {
			continue
		}
		counts[value] += 0
		for _, other := range r.podsOn(node.Name) {
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

func (r *reference) spreadRefusal(pod *corev1.Pod, node *corev1.Node) string {
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

func (r *reference) spreadScores(pod *corev1.Pod, nodes []*corev1.Node) []int64 {
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

// looksAt says whether an affinity term of owner selects other.
func (r *reference) looksAt(owner *corev1.Pod, t corev1.PodAffinityTerm, other *corev1.Pod) bool {
	in := slices.Contains(t.Namespaces, other.Namespace)
	if len(t.Namespaces) == 0 && t.NamespaceSelector == nil {
		in = owner.Namespace == other.Namespace
	}
	if t.NamespaceSelector != nil {
		s, _ := metav1.LabelSelectorAsSelector(t.NamespaceSelector)
		in = in || s.Matches(labels.Set(r.namespaces[other.Namespace]))
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

// sameDomain says whether a pod's node and a node have the same value of a label.
func (r *reference) sameDomain(pod *corev1.Pod, node *corev1.Node, key string) bool {
	other, ok := r.nodes[pod.Spec.NodeName]
	if !ok {
		return false
	}
	a, okA := other.Labels[key]
	b, okB := node.Labels[key]
	return okA && okB && a == b
}

func (r *reference) affinityRefusal(pod *corev1.Pod, node *corev1.Node) string {
	near, _ := together(pod)
	matches := func(other *corev1.Pod) bool {
		for _, t := range near {
			if !r.looksAt(pod, t, other) {
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
		for _, other := range r.pods {
			if !matches(other) {
				continue
			}
			found = found || r.sameDomain(other, node, t.TopologyKey)
			if there, ok := r.nodes[other.Spec.NodeName]; ok && hasAll(there, []string{t.TopologyKey}) {
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
		for _, other := range r.pods {
			if r.looksAt(pod, t, other) && r.sameDomain(other, node, t.TopologyKey) {
				return "node(s) didn't match pod anti-affinity rules"
			}
		}
	}
	for _, other := range r.pods {
		far, _ := apart(other)
		for _, t := range far {
			if r.looksAt(other, t, pod) && r.sameDomain(other, node, t.TopologyKey) {
				return "node(s) didn't satisfy existing pods anti-affinity rules"
			}
		}
	}
	return ""
}

func (r *reference) affinityScores(pod *corev1.Pod, nodes []*corev1.Node) []int64 {
	raw := eachNode(nodes, func(node *corev1.Node) int64 {
		var sum int64
		count := func(owner, other *corev1.Pod, t corev1.PodAffinityTerm, weight int64, placed *corev1.Pod) {
			if r.looksAt(owner, t, other) && r.sameDomain(placed, node, t.TopologyKey) {
				sum += weight
			}
		}
		for _, other := range r.pods {
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

func eachNode(nodes []*corev1.Node, score func(*corev1.Node) int64) []int64 {
	scores := make([]int64, len(nodes))
	for i, node := range nodes {
		scores[i] = score(node)
	}
	return scores
}

func highest(scores []int64) int64 {
	if len(scores) == 0 {
		return 0
	}
	return slices.Max(scores)
}

// message puts refusals into the words that users read.
func message(refusals map[string][]string) string {
	counts := make(map[string]int)
	for _, reasons := range refusals {
		for _, reason := range reasons {
			counts[reason]++
		}
	}
	var parts []string
	for reason, n := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, reason))
	}
	sort.Strings(parts)
	return fmt.Sprintf("0/%d nodes are available: %s.", len(refusals), strings.Join(parts, ", "))
}
