// Package plugin says what a rule of the scheduler is. There are three kinds,
// each an interface of one method besides its name; a rule may be several of them.
//
//   - A [Filter] says whether a pod may go to a node.
//   - A [Score] says how good a node is for a pod.
//   - A [ClusterRule] depends on what runs elsewhere in the cluster. It looks at
//     the cluster for the pods of one shape, and then filters or scores nodes.
//
// Results are kept and shared by pods that look alike, which is why rules are
// given a demand or a shape instead of a pod. What they may assume, and must
// hold to in turn:
//
//   - Filter and Score are functions of the demand and the node, and of nothing
//     else. They are asked again only when the node has changed. A rule that
//     looks at other parts of a pod says so by being a [PodReader].
//   - Everything is called by one goroutine at a time, while the state of the
//     cluster stands still. So rules need no locks, and must not wait.
//   - Nodes, demands, shapes and verdicts are read only.
package plugin
