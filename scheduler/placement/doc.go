// Package placement finds the best node for a pod.
//
// What it guarantees: the node that [Engine.Place] returns passes all filters
// at that moment and has the highest score among all nodes that do; among
// equals, one of those with the fewest pods, in a zone whose turn it is. That nothing was
// sampled and nothing is stale does not depend on what was placed before: the
// answer is the one that looking at every node would give.
//
// What makes it fast: results are kept for each kind of pod. A [cluster.Demand]
// has a table with the verdict and the scores of every node; a shape whose
// pods also depend on other pods has a ranking on top of it. Both are taken up
// to date from the log of changed nodes, so that placing one pod after the
// other costs a few nodes each, not all of them. Only when a change reaches
// beyond its node (a zone's count, the highest of the raw scores) the totals of
// all nodes are added up anew, from numbers that are at hand.
package placement
