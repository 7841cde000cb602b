// Package plugin defines the rules of the scheduler. There are three kinds, each an interface with one method besides
// its name; a rule may implement several of them.
//
//   - A [Filter] decides whether a pod may go to a node.
//   - A [Score] rates a node for a pod.
//   - A [ClusterRule] depends on other pods and nodes of the cluster. It surveys the cluster for the pods of one shape,
//     and then filters or scores nodes.
//
// Results are kept and shared by equal pods. So rules receive a demand or a shape instead of a pod. These hold for all
// rules:
//
//   - Filter and Score must depend on the demand and the node only. They are called again only when the node has
//     changed. A rule that needs other parts of a pod implements [PodReader].
//   - All methods are called by one goroutine at a time, while the state of the cluster does not change. So rules need
//     no locks, and must not block.
//   - Nodes, demands, shapes and verdicts must not be modified.
package plugin
