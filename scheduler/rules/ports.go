package rules

import (
	"github.com/millrace/millrace/scheduler/internal/cluster"
	"github.com/millrace/millrace/scheduler/plugin"
)

// Ports keeps pods apart that want the same port of their host.
type Ports struct{}

var portTaken = plugin.Verdict{
	Plugin:  Ports{}.Name(),
	Reasons: []string{"node(s) didn't have free ports for the requested pod ports"},
}

// Name is NodePorts.
func (Ports) Name() string { return "NodePorts" }

// Skip says whether the pod wants no port of its host.
func (Ports) Skip(demand *cluster.Demand) bool { return len(demand.Ports) == 0 }

// Filter refuses nodes where one of the ports is taken.
func (Ports) Filter(demand *cluster.Demand, node *cluster.Node) *plugin.Verdict {
	if node.Ports.Conflicts(demand.Ports) {
		return &portTaken
	}
	return nil
}

// RequeuesOn lists new nodes and pods that leave.
func (Ports) RequeuesOn() cluster.Change { return cluster.NodeAdded | cluster.PodGone }
