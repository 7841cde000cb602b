package plugin

import (
	corev1 "k8s.io/api/core/v1"
)

// Plugin is a rule with a name, which metrics and logs show.
type Plugin interface {
	Name() string
}

// Filter says whether a pod may go to a node.
type Filter interface {
	Plugin
	// Filter returns nil if the pod may go there, and otherwise why not. What it
	// returns often is worth making once: a verdict is kept for each node.
	Filter(demand *Demand, node *Node) *Verdict
}

// Score says how good a node is for a pod; higher is better.
type Score interface {
	Plugin
	Score(demand *Demand, node *Node) int64
}

// MaxScore is the best score there is, once normalised.
const MaxScore = 100

// Normalizer brings raw scores into 0 to MaxScore. Scores that have none must lie there by themselves.
type Normalizer interface {
	// Normalize is given the lowest and the highest raw score among the nodes that the pod may go to.
	Normalize(raw, lowest, highest int64) int64
}

// Skipper has nothing to say about some pods. It is not asked about them, which
// saves the time and, for scores, keeps a constant out of all sums.
type Skipper interface {
	Skip(demand *Demand) bool
}

// Requeuer says after which changes in the cluster its filter may admit a pod
// that it has refused. The pods that wait for it are tried again then. Those that wait for a
// filter that is no Requeuer are tried again after any change.
type Requeuer interface {
	RequeuesOn() Change
}

// PodReader reads parts of a pod that neither demands nor shapes hold, such as
// an annotation. Pods for which it returns different strings are told apart, and
// the rule finds the string again with [cluster.Demand.Read] and its own name.
type PodReader interface {
	ReadPod(pod *corev1.Pod) string
}

// Verdict is why a pod may not go to a node.
type Verdict struct {
	Plugin  string
	Reasons []string
	// Lasting says that the node would refuse the pod even if no other pod were
	// there: preempting other pods does not help.
	Lasting bool
	// Broken says that this is no refusal but an error, and that nothing can be decided about the pod.
	Broken bool
}

// Relational is a rule that depends on pods and nodes elsewhere: one of those
// in package rules that are, or a [ClusterRule].
type Relational interface {
	Plugin
}

// ClusterRule is a rule of a user's own that depends on pods and nodes elsewhere.
type ClusterRule interface {
	Plugin
	// Survey looks at the cluster for pods of a shape. It is called before such a
	// pod is placed whenever anything has changed, so it costs most if it looks at all nodes.
	Survey(shape *Shape, state Cluster) Survey
}

// Survey is what a ClusterRule has found. What is nil it has no opinion on.
type Survey struct {
	Filter    func(*Node) *Verdict
	Score     func(*Node) int64
	Normalize func(raw, lowest, highest int64) int64
}
