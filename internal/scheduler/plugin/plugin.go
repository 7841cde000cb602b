package plugin

import (
	corev1 "k8s.io/api/core/v1"
)

// Plugin is a rule with a name for metrics and logs.
type Plugin interface {
	Name() string
}

// Filter decides whether a pod may go to a node.
type Filter interface {
	Plugin
	// Filter returns nil if the pod may go to the node, and otherwise the reason. A verdict is kept for each node, so
	// it is best to return the same pointer for frequent ones.
	Filter(demand *Demand, node *Node) *Verdict
}

// Score rates a node for a pod; higher is better.
type Score interface {
	Plugin
	Score(demand *Demand, node *Node) int64
}

// MaxScore is the highest normalized score.
const MaxScore = 100

// Normalizer converts raw scores to 0 to MaxScore. Scores without one must be in that range.
type Normalizer interface {
	// Normalize gets the lowest and the highest raw score of the nodes to which the pod may go.
	Normalize(raw, lowest, highest int64) int64
}

// Skipper is a rule that does not apply to some pods. It is not called for them, which saves time and, for scores, a
// constant in all sums.
type Skipper interface {
	Skip(demand *Demand) bool
}

// Requeuer lists the changes in the cluster after which its filter may admit a pod that it has refused. Then pods that
// wait for it are tried again. Pods that wait for another filter are tried again after any change.
type Requeuer interface {
	RequeuesOn() Change
}

// PodReader reads parts of a pod that neither demands nor shapes contain, such as an annotation. Pods with different
// results have different demands, and the rule gets the result with [cluster.Demand.Read] and its own name.
type PodReader interface {
	ReadPod(pod *corev1.Pod) string
}

// Verdict is the reason why a pod may not go to a node.
type Verdict struct {
	Plugin  string
	Reasons []string
	// Lasting means that the node would refuse the pod even without other pods: preemption does not help.
	Lasting bool
	// Broken means that this is an error: nothing can be decided about the pod.
	Broken bool
}

// Relational is a rule that depends on pods and nodes elsewhere: one of package rules, or a [ClusterRule].
type Relational interface {
	Plugin
}

// ClusterRule is a user's rule that depends on pods and nodes elsewhere.
type ClusterRule interface {
	Plugin
	// Survey examines the cluster for pods of a shape. It is called before such a pod is placed if anything has
	// changed, so a survey of all nodes is expensive.
	Survey(shape *Shape, state Cluster) Survey
}

// Survey is the result of a ClusterRule. A nil function means that the rule does not do that.
type Survey struct {
	Filter    func(*Node) *Verdict
	Score     func(*Node) int64
	Normalize func(raw, lowest, highest int64) int64
}
