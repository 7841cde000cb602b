// Package nodelifecycle watches over nodes: it says when one no longer answers,
// and taints nodes for what is wrong with them.
//
// A node answers by renewing its lease or its status. What counts is when this
// process saw a renewal, so clocks of nodes do not matter.
//
// What is guaranteed:
//
//   - Told: a node that has not answered for the grace period gets the status
//     Unknown for its conditions, and its pods are marked not ready.
//   - Tainted: the taints not-ready, unreachable, unschedulable and those for
//     pressure follow the node's conditions; other taints are not touched.
//   - Gentle: taints by which pods are evicted are given to few nodes at a time, to
//     fewer where most nodes of a zone fail, and to none when all nodes of the cluster
//     have failed at once, since then it is we who are cut off.
//
// Who evicts is package tainteviction.
package nodelifecycle
