package ruleset

import (
	"math"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Rule depends on pods and nodes elsewhere in the cluster. Its version tells when results may have changed.
type Rule interface {
	plugin.Plugin
	// Version returns a number that changes when Relations may return other relations.
	Version(shape *cluster.Shape, state *cluster.State) uint64
	// Relations returns the rule's relations for pods of this shape: none, filters, scores, or both.
	Relations(shape *cluster.Shape, state *cluster.State) []Relation
}

// Relation is a rule for the pods of one shape. It is also a [Filter], a [Score] or both.
type Relation interface {
	// Refresh is called before each use with the indexes of the nodes that have changed since the last call, with
	// repetitions. The first time it is all nodes.
	Refresh(changed []int32)
	// Version changes if results may have changed for other nodes than those.
	Version() uint64
}

// Filter is a relation that filters. It is called with indexes of nodes that are present.
type Filter interface {
	Filter(node int) *plugin.Verdict
}

// Score is a relation that scores. It is called with indexes of nodes that are present.
type Score interface {
	Score(node int) int64
	plugin.Normalizer
}

// Unrated is the raw score of a node that a relation cannot rate. It adds nothing to the total, and is not among the
// scores to which others are compared.
const Unrated = math.MinInt64

// Skips reports whether a rule is not needed for a demand.
func Skips(p plugin.Plugin, demand *cluster.Demand) bool {
	s, ok := p.(plugin.Skipper)
	return ok && s.Skip(demand)
}
