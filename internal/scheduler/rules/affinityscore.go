package rules

import (
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// affinityScore has the preferred affinity of one shape, and that of placed pods towards it.
type affinityScore struct{ tallies }

// newAffinityScore returns the score. requiredWeight is the weight of the required affinity of placed pods towards the
// pod.
func newAffinityScore(shape *cluster.Shape, state *cluster.State, keys []string, requiredWeight int64) *affinityScore {
	s := &affinityScore{}
	for _, key := range keys {
		s.add(state, key, func(other *cluster.Shape) int64 {
			weight := preference(state, shape.PreferredAffinity, key, other) -
				preference(state, shape.PreferredAntiAffinity, key, other) +
				preference(state, other.PreferredAffinity, key, shape) -
				preference(state, other.PreferredAntiAffinity, key, shape)
			for i := range other.Affinity {
				term := &other.Affinity[i]
				weight += requiredWeight * one(term.TopologyKey == key && state.Selects(term, shape))
			}
			return weight
		})
	}
	return s
}

// preference adds the weights of the terms with this topology key that select pods of a shape.
func preference(state *cluster.State, terms []cluster.WeightedTerm, key string, shape *cluster.Shape) int64 {
	var sum int64
	for i := range terms {
		if t := &terms[i]; t.TopologyKey == key && state.Selects(&t.Term, shape) {
			sum += t.Weight
		}
	}
	return sum
}

func (s *affinityScore) Score(node int) int64 {
	var sum int64
	for _, t := range s.all {
		count, _ := t.at(node)
		sum += count
	}
	return sum
}

func (s *affinityScore) Normalize(raw, lowest, highest int64) int64 {
	if highest == lowest {
		return 0
	}
	return plugin.MaxScore * (raw - lowest) / (highest - lowest)
}
