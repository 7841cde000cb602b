package rules

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Unschedulable keeps pods off cordoned nodes, unless they tolerate that.
type Unschedulable struct{}

var (
	cordon        = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	unschedulable = plugin.Verdict{
		Plugin:  Unschedulable{}.Name(),
		Reasons: []string{"node(s) were unschedulable"},
		Lasting: true,
	}
)

// Name is NodeUnschedulable.
func (Unschedulable) Name() string { return "NodeUnschedulable" }

// Filter refuses cordoned nodes.
func (Unschedulable) Filter(demand *cluster.Demand, node *cluster.Node) *plugin.Verdict {
	if node.Unschedulable && !demand.Tolerates(&cordon) {
		return &unschedulable
	}
	return nil
}

// RequeuesOn lists new nodes and nodes that are uncordoned.
func (Unschedulable) RequeuesOn() cluster.Change { return cluster.NodeAdded | cluster.NodeTaints }

// NodeAffinity keeps pods on the nodes that match their node selector and node affinity, and prefers some of them.
type NodeAffinity struct{}

var offAffinity = plugin.Verdict{
	Plugin:  NodeAffinity{}.Name(),
	Reasons: []string{"node(s) didn't match Pod's node affinity/selector"},
	Lasting: true,
}

// Name is NodeAffinity.
func (NodeAffinity) Name() string { return "NodeAffinity" }

// Filter refuses nodes with other labels.
func (NodeAffinity) Filter(demand *cluster.Demand, node *cluster.Node) *plugin.Verdict {
	if !demand.Match.Matches(node.Name, node.Labels) {
		return &offAffinity
	}
	return nil
}

// RequeuesOn lists new nodes and changed labels.
func (NodeAffinity) RequeuesOn() cluster.Change { return cluster.NodeAdded | cluster.NodeLabels }

// AddedNodes keeps pods on the nodes in the scheduler's configuration, in addition to their own affinity.
type AddedNodes struct {
	NodeAffinity
	Match demand.NodeMatch
}

var offAddedAffinity = plugin.Verdict{
	Plugin:  NodeAffinity{}.Name(),
	Reasons: []string{"node(s) didn't match scheduler-enforced node affinity"},
	Lasting: true,
}

// Filter refuses other nodes.
func (a AddedNodes) Filter(_ *cluster.Demand, node *cluster.Node) *plugin.Verdict {
	if !a.Match.Matches(node.Name, node.Labels) {
		return &offAddedAffinity
	}
	return nil
}

// PreferredNodes scores by the weights of the preferred terms that a node matches.
type PreferredNodes struct {
	NodeAffinity
	// Added are preferences that apply to all pods.
	Added []demand.WeightedNodeTerm
}

// Skip reports whether there are no preferences.
func (p PreferredNodes) Skip(demand *cluster.Demand) bool {
	return len(demand.Preferred)+len(p.Added) == 0
}

// Score adds up the weights.
func (p PreferredNodes) Score(demand *cluster.Demand, node *cluster.Node) int64 {
	return weightOf(p.Added, node) + weightOf(demand.Preferred, node)
}

func weightOf(terms []demand.WeightedNodeTerm, node *cluster.Node) int64 {
	var sum int64
	for i := range terms {
		if terms[i].Matches(node.Name, node.Labels) {
			sum += terms[i].Weight
		}
	}
	return sum
}

// Normalize compares with the best node.
func (PreferredNodes) Normalize(raw, _, highest int64) int64 { return shareOf(raw, highest) }

// shareOf returns raw as a percentage of the highest.
func shareOf(raw, highest int64) int64 {
	if highest == 0 {
		return 0
	}
	return plugin.MaxScore * raw / highest
}
