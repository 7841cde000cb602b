package plugin

import (
	"iter"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
)

// Types that rules receive. They must not be modified.
type (
	// Pod has the properties of a pod that the scheduler needs.
	Pod = cluster.Pod
	// Demand is what a pod requires of a node, independent of other pods.
	Demand = cluster.Demand
	// Shape has all properties of a pod that matter for the placement of itself and of others.
	Shape = cluster.Shape
	// Node is a node with the pods on it.
	Node = cluster.Node
	// Change says what has changed in the cluster.
	Change = cluster.Change
)

// Changes after which pods can be tried again.
const (
	NodeAdded        = cluster.NodeAdded
	NodeRoom         = cluster.NodeRoom
	NodeLabels       = cluster.NodeLabels
	NodeTaints       = cluster.NodeTaints
	NodeGone         = cluster.NodeGone
	PodPlaced        = cluster.PodPlaced
	PodGone          = cluster.PodGone
	PodChanged       = cluster.PodChanged
	NamespaceChanged = cluster.NamespaceChanged
)

// Cluster is the whole cluster, for a [ClusterRule].
type Cluster interface {
	// All ranges over the nodes, including those that exist only in pods ([Node.Present] is false then).
	All() iter.Seq[*Node]
	// Pods ranges over the pods with a node, and their nodes.
	Pods() iter.Seq2[*Pod, *Node]
	// NodeNamed returns the node with a name.
	NodeNamed(name string) (*Node, bool)
	// Nodes returns the number of nodes that are present.
	Nodes() int
}
