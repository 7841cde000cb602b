// Package placement finds the best node for a pod.
//
// Guarantee: the node that [Engine.Place] returns passes all filters at that moment and has the highest score of all
// nodes that do. Among equal nodes it is one with the fewest pods, in the zone that has got the fewest. No nodes are
// sampled and no result is outdated: the answer is the one that checking every node would give.
//
// It is fast because results are kept for each kind of pod. A [cluster.Demand] has a table with the verdict and the
// scores of every node. A shape whose pods also depend on other pods has a ranking on top of it. Both are updated from
// the log of changed nodes, so placing one pod after the other costs a few nodes each, not all of them. Only when a
// change affects other nodes (a zone's count, the highest raw score) the totals of all nodes are computed again, from
// stored numbers.
package placement
