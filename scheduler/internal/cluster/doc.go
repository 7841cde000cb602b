// Package cluster is the scheduler's picture of the cluster: which nodes there
// are, what they offer, and which pods take how much of it.
//
// What it guarantees:
//
//   - A pod is counted on exactly one node from the moment that it is assumed
//     there until it is seen to have gone, or its binding is known to have
//     failed and it is forgotten. Nothing expires by time.
//   - What is assumed (decided, not yet seen in a watch) is kept apart from what
//     is confirmed. What a watch shows always wins.
//   - Every change leaves the index of its node in a log. Whoever keeps results
//     per node takes them up to date by reading the log from where it stopped:
//     the work is proportional to what has changed, and no snapshot is copied.
//
// Pods that look alike are one [Shape], and what they ask of a node alone is one
// [Demand]: both are interned, so a pointer comparison is an equality test and
// thirty thousand pods of one Deployment need one description.
//
// A State is not safe for concurrent use. Shapes, demands and pods never change
// once made and can be read from anywhere.
package cluster
