package rules

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Taints keeps pods off nodes with taints that they do not tolerate, and prefers nodes without PreferNoSchedule taints.
type Taints struct{}

var untolerated = plugin.Verdict{
	Plugin:  Taints{}.Name(),
	Reasons: []string{"node(s) had untolerated taint(s)"},
	Lasting: true,
}

// Name is TaintToleration.
func (Taints) Name() string { return "TaintToleration" }

// Filter refuses nodes with a taint of effect NoSchedule or NoExecute that the pod does not tolerate.
func (Taints) Filter(demand *cluster.Demand, node *cluster.Node) *plugin.Verdict {
	for i := range node.Taints {
		taint := &node.Taints[i]
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !demand.Tolerates(taint) {
			return &untolerated
		}
	}
	return nil
}

// Score is minus the number of taints of effect PreferNoSchedule that the pod does not tolerate.
func (Taints) Score(demand *cluster.Demand, node *cluster.Node) int64 {
	var score int64
	for i := range node.Taints {
		taint := &node.Taints[i]
		if taint.Effect == corev1.TaintEffectPreferNoSchedule && !demand.Tolerates(taint) {
			score--
		}
	}
	return score
}

// Normalize compares with the node that has most of them.
func (Taints) Normalize(raw, lowest, _ int64) int64 {
	return plugin.MaxScore - shareOf(raw, lowest)
}

// RequeuesOn lists new nodes and changed taints.
func (Taints) RequeuesOn() cluster.Change { return cluster.NodeAdded | cluster.NodeTaints }
