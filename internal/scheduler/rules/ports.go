package rules

import (
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Ports keeps pods with the same host port on different nodes.
type Ports struct{}

var portTaken = plugin.Verdict{
	Plugin:  Ports{}.Name(),
	Reasons: []string{"node(s) didn't have free ports for the requested pod ports"},
}

// Name is NodePorts.
func (Ports) Name() string { return "NodePorts" }

// Skip reports whether the pod has no host port.
func (Ports) Skip(demand *cluster.Demand) bool { return len(demand.Ports) == 0 }

// Filter refuses nodes where one of the ports is in use.
func (Ports) Filter(demand *cluster.Demand, node *cluster.Node) *plugin.Verdict {
	if node.Ports.Conflicts(demand.Ports) {
		return &portTaken
	}
	return nil
}

// RequeuesOn lists new nodes and removed pods.
func (Ports) RequeuesOn() cluster.Change { return cluster.NodeAdded | cluster.PodGone }
