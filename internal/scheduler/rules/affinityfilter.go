package rules

import (
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// affinityFilter has the required affinity and anti-affinity of one shape, and that of placed pods towards it.
type affinityFilter struct {
	tallies
	near      []*tally
	apart     []*tally
	unwelcome []*tally
	// alone reports that the pod satisfies its own affinity: the first of its kind must be placed somewhere.
	alone bool
	first bool // no placed pod satisfies its affinity
}

func newAffinityFilter(shape *cluster.Shape, state *cluster.State, apart []string) *affinityFilter {
	f := &affinityFilter{}
	matchesAll := func(other *cluster.Shape) bool {
		for i := range shape.Affinity {
			if !state.Selects(&shape.Affinity[i], other) {
				return false
			}
		}
		return true
	}
	for i := range shape.Affinity {
		f.near = append(f.near, f.add(state, shape.Affinity[i].TopologyKey, func(other *cluster.Shape) int64 {
			return one(matchesAll(other))
		}))
	}
	f.alone = matchesAll(shape)
	for i := range shape.AntiAffinity {
		term := &shape.AntiAffinity[i]
		f.apart = append(f.apart, f.add(state, term.TopologyKey, func(other *cluster.Shape) int64 {
			return one(state.Selects(term, other))
		}))
	}
	for _, key := range apart {
		f.unwelcome = append(f.unwelcome, f.add(state, key, func(other *cluster.Shape) int64 {
			var terms int64
			for i := range other.AntiAffinity {
				term := &other.AntiAffinity[i]
				terms += one(term.TopologyKey == key && state.Selects(term, shape))
			}
			return terms
		}))
	}
	return f
}

func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

func (f *affinityFilter) Refresh(changed []int32) {
	f.tallies.Refresh(changed)
	first := true
	for _, t := range f.near {
		first = first && t.total == 0
	}
	if first != f.first {
		f.first = first
		f.epoch++
	}
}

func (f *affinityFilter) Filter(node int) *plugin.Verdict {
	if !f.isNear(node) {
		return &tooFar
	}
	for _, t := range f.apart {
		if count, _ := t.at(node); count > 0 {
			return &tooNear
		}
	}
	for _, t := range f.unwelcome {
		if count, _ := t.at(node); count > 0 {
			return &unwelcome
		}
	}
	return nil
}

func (f *affinityFilter) isNear(node int) bool {
	near := true
	for _, t := range f.near {
		count, ok := t.at(node)
		if !ok {
			return false
		}
		near = near && count > 0
	}
	return near || f.first && f.alone
}
