package rules

import (
	"hash/maphash"
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
)

// surroundings has the affinity of placed pods towards the pods of one shape.
type surroundings struct {
	epoch  uint64
	stand  uint64
	apart  []string // topology keys of anti-affinity
	scored []string // topology keys of preferences, of the placed pods or of the shape
}

func (p *PodAffinity) around(shape *cluster.Shape, state *cluster.State) surroundings {
	epoch := state.AffinityVersion()
	s, ok := p.known[shape]
	if ok && s.epoch == epoch {
		return s
	}
	if len(p.known) > 4096 {
		clear(p.known) // most of these shapes have no pods any more
	}
	s = p.lookAround(shape, state)
	s.epoch = epoch
	var h maphash.Hash
	h.SetSeed(p.seed)
	maphash.WriteComparable(&h, state.NamespacesVersion())
	for _, keys := range [][]string{s.apart, s.scored} {
		for _, key := range keys {
			maphash.WriteComparable(&h, key)
		}
		maphash.WriteComparable(&h, len(keys))
	}
	s.stand = h.Sum64()
	p.known[shape] = s
	return s
}

func (p *PodAffinity) lookAround(shape *cluster.Shape, state *cluster.State) surroundings {
	apart, scored := make(map[string]bool), make(map[string]bool)
	for other := range state.WithAffinity() {
		for i := range other.AntiAffinity {
			if t := &other.AntiAffinity[i]; state.Selects(t, shape) {
				apart[t.TopologyKey] = true
			}
		}
		for i := range other.Affinity {
			if t := &other.Affinity[i]; p.options.requiredWeight() != 0 && state.Selects(t, shape) {
				scored[t.TopologyKey] = true
			}
		}
		for _, terms := range [][]cluster.WeightedTerm{other.PreferredAffinity, other.PreferredAntiAffinity} {
			for i := range terms {
				if t := &terms[i].Term; state.Selects(t, shape) {
					scored[t.TopologyKey] = true
				}
			}
		}
	}
	for _, terms := range [][]cluster.WeightedTerm{shape.PreferredAffinity, shape.PreferredAntiAffinity} {
		for i := range terms {
			scored[terms[i].TopologyKey] = true
		}
	}
	if p.options.IgnorePreferred && len(shape.PreferredAffinity)+len(shape.PreferredAntiAffinity) == 0 {
		clear(scored)
	}
	return surroundings{apart: slices.Sorted(maps.Keys(apart)), scored: slices.Sorted(maps.Keys(scored))}
}
