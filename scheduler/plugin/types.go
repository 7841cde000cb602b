package plugin

import (
	"iter"

	"github.com/millrace/millrace/scheduler/internal/cluster"
)

// What rules are given. All of it is read only.
type (
	// Pod is what the scheduler keeps of a pod.
	Pod = cluster.Pod
	// Demand is what a pod asks of a node by itself, whatever runs elsewhere.
	Demand = cluster.Demand
	// Shape is all about a pod that matters to where it, and others, can go.
	Shape = cluster.Shape
	// Node is a node with the pods on it.
	Node = cluster.Node
	// Change says what about the cluster has changed.
	Change = cluster.Change
)

// The changes after which pods can be tried again.
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

// Cluster is the whole cluster, as a [ClusterRule] sees it.
type Cluster interface {
	// All ranges over the nodes, those included that only pods name ([Node.Present] is false then).
	All() iter.Seq[*Node]
	// Pods ranges over the pods that have a node, and their nodes.
	Pods() iter.Seq2[*Pod, *Node]
	// NodeNamed finds a node by its name.
	NodeNamed(name string) (*Node, bool)
	// Nodes is the number of nodes that are present.
	Nodes() int
}
