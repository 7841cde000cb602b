// Package cluster is the scheduler's state of the cluster: the nodes, their capacity, and the pods that use it.
//
// Guarantees:
//
//   - A pod counts on exactly one node from the moment that it is assumed there until it is seen to have ended, or its
//     binding is known to have failed and it is forgotten. Nothing expires by time.
//   - What is assumed (decided, not yet seen in a watch) is separate from what is confirmed. What a watch shows always
//     wins.
//   - Each change appends the index of its node to a log. Results for each node are updated by reading the log from the
//     last position: the work is proportional to the changes, and no snapshot is copied.
//
// Pods with equal properties share one [Shape], and pods with equal requirements for a node share one [Demand]. Both
// are interned, so comparing pointers is enough, and thirty thousand pods of one Deployment need one description.
//
// A State is not safe for concurrent use. Shapes, demands and pods are immutable and can be read by any goroutine.
package cluster
