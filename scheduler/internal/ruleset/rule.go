package ruleset

import (
	"math"

	"github.com/millrace/millrace/scheduler/internal/cluster"
	"github.com/millrace/millrace/scheduler/plugin"
)

// Rule depends on pods and nodes elsewhere in the cluster, and says when its results may have changed.
type Rule interface {
	plugin.Plugin
	// Version returns a number that changes whenever Relations may return others.
	Version(shape *cluster.Shape, state *cluster.State) uint64
	// Relations returns what the rule has to say about pods of this shape:
	// nothing, a filter, a score, or several of them.
	Relations(shape *cluster.Shape, state *cluster.State) []Relation
}

// Relation is a rule applied to the pods of one shape. It is also a [Filter], a [Score] or both.
type Relation interface {
	// Refresh is called before each use with the indexes of the nodes that have
	// changed since the last time, perhaps several times each. The first time it is all of them.
	Refresh(changed []int32)
	// Version changes if answers may have changed for nodes that were not among those.
	Version() uint64
}

// Filter is a relation that filters. It is asked about nodes by index, and only about nodes that are present.
type Filter interface {
	Filter(node int) *plugin.Verdict
}

// Score is a relation that scores. It is asked about nodes by index, and only about nodes that are present.
type Score interface {
	Score(node int) int64
	plugin.Normalizer
}

// Unrated is a raw score of a relation that says that it cannot rate the node: it
// counts nothing, and is not among those that the others are compared with.
const Unrated = math.MinInt64

// Skips says whether a rule has nothing to say about a demand.
func Skips(p plugin.Plugin, demand *cluster.Demand) bool {
	s, ok := p.(plugin.Skipper)
	return ok && s.Skip(demand)
}
