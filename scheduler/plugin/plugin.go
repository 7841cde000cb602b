package plugin

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/scheduler/cluster"
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
	Filter(demand *cluster.Demand, node *cluster.Node) *Verdict
}

// Score says how good a node is for a pod; higher is better.
type Score interface {
	Plugin
	Score(demand *cluster.Demand, node *cluster.Node) int64
}

// MaxScore is the best score there is, once normalised.
const MaxScore = 100

// Unrated is a raw score of a relation that says that it cannot rate the node: it
// counts nothing, and is not among those that the others are compared with.
const Unrated = math.MinInt64

// Normalizer brings raw scores into 0 to MaxScore. Scores that have none must lie there by themselves.
type Normalizer interface {
	// Normalize is given the lowest and the highest raw score among the nodes that the pod may go to.
	Normalize(raw, lowest, highest int64) int64
}

// Skipper has nothing to say about some pods. It is not asked about them, which
// saves the time and, for scores, keeps a constant out of all sums.
type Skipper interface {
	Skip(demand *cluster.Demand) bool
}

// Heeder says which changes in the cluster may turn its filter's refusal. A
// filter that does not say so is asked again after any change.
type Heeder interface {
	Heeds() cluster.Change
}

// Marker looks at parts of a pod that neither demands nor shapes hold. What
// Mark returns makes pods differ; it is found again with the function that
// SetMark is given, once, before anything else is called.
type Marker interface {
	Mark(pod *corev1.Pod) string
	SetMark(func(*cluster.Demand) string)
}

// Verdict is why a pod may not go to a node.
type Verdict struct {
	Plugin  string
	Reasons []string
	// Lasting says that the node would refuse the pod even if no other pod were
	// there: nobody need be asked to leave.
	Lasting bool
}

// Relational is a rule that depends on pods and nodes elsewhere.
type Relational interface {
	Plugin
	// Stand returns a number that changes whenever Relate may have another answer.
	Stand(shape *cluster.Shape, state *cluster.State) uint64
	// Relate returns what the rule has to say about pods of this shape: nothing,
	// a filter, a score, or several of them.
	Relate(shape *cluster.Shape, state *cluster.State) []Relation
}

// Relation is a relational rule applied to the pods of one shape. It is also a
// [RelationFilter], a [RelationScore] or both.
type Relation interface {
	// Refresh is called before each use with the indexes of the nodes that have
	// changed since the last time, perhaps several times each. The first time it is all of them.
	Refresh(changed []int32)
	// Epoch changes if answers may have changed for nodes that were not among those.
	Epoch() uint64
}

// RelationFilter is a relation that filters. It is asked about nodes by index,
// and only about nodes that are present.
type RelationFilter interface {
	Filter(node int) *Verdict
}

// RelationScore is a relation that scores. It is asked about nodes by index,
// and only about nodes that are present.
type RelationScore interface {
	Score(node int) int64
	Normalizer
}
