// Package oracle finds the suitable nodes of pods in the simplest way: for every node it checks every pod, as they are
// in the API. It shares no code with the scheduler, is far too slow for it, and is used to test it.
package oracle

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Cluster is a cluster of API objects.
type Cluster struct {
	Nodes      map[string]*corev1.Node
	Pods       map[string]*corev1.Pod // placed ones, by name
	Namespaces map[string]map[string]string
	Services   map[string]map[string]string // of namespace "default"
}

// New returns an empty cluster.
func New() *Cluster {
	return &Cluster{
		Nodes: make(map[string]*corev1.Node), Pods: make(map[string]*corev1.Pod),
		Namespaces: make(map[string]map[string]string), Services: make(map[string]map[string]string),
	}
}

// NodeNames returns the names of the nodes in order.
func (r *Cluster) NodeNames() []string {
	var names []string
	for name := range r.Nodes {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// PodsOn returns the pods of a node.
func (r *Cluster) PodsOn(node string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range r.Pods {
		if pod.Spec.NodeName == node {
			pods = append(pods, pod)
		}
	}
	return pods
}

// Evaluate returns the reasons why nodes are refused, or the total scores of the others.
func (r *Cluster) Evaluate(pod *corev1.Pod) (refusals map[string][]string, totals map[string]int64) {
	refusals, totals = make(map[string][]string), make(map[string]int64)
	var left []*corev1.Node
	for _, name := range r.NodeNames() {
		node := r.Nodes[name]
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

func (r *Cluster) refuse(pod *corev1.Pod, node *corev1.Node) []string {
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

// Message formats refusals as the scheduler's message.
func Message(refusals map[string][]string) string {
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
