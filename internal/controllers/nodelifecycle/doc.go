// Package nodelifecycle monitors nodes: it marks those that are silent as unreachable, and sets taints for nodes'
// conditions.
//
// A heartbeat is a renewal of a node's lease or status. What counts is when this process saw the renewal, so the clocks
// of nodes do not matter.
//
// Guarantees:
//
//   - Told: a node that was silent for the grace period gets the status Unknown for
//     its conditions, and its pods are marked as not ready.
//   - Tainted: the taints not-ready, unreachable, unschedulable and those for
//     pressure follow the node's conditions; other taints are not touched.
//   - Gentle: NoExecute taints are set on few nodes at a time, on fewer if most nodes
//     of a zone fail, and on none if all nodes of the cluster fail at once, because
//     then it is probably this process that is cut off.
//
// Package tainteviction evicts the pods.
package nodelifecycle
