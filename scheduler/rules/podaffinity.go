package rules

import (
	"hash/maphash"
	"maps"
	"slices"

	"github.com/millrace/millrace/scheduler/cluster"
	"github.com/millrace/millrace/scheduler/plugin"
)

// PodAffinity keeps pods together and apart as they and the pods around them ask for.
type PodAffinity struct {
	seed  maphash.Seed
	known map[*cluster.Shape]surroundings
}

// surroundings is what pods that are already placed want of the pods of one shape.
type surroundings struct {
	epoch  uint64
	stand  uint64
	apart  []string // topology keys by which some must not be near it
	scored []string // topology keys by which some like or dislike it, or it them
}

// NewPodAffinity returns the rule.
func NewPodAffinity() *PodAffinity {
	return &PodAffinity{seed: maphash.MakeSeed(), known: make(map[*cluster.Shape]surroundings)}
}

var (
	tooFar = plugin.Verdict{
		Plugin:  (*PodAffinity)(nil).Name(),
		Reasons: []string{"node(s) didn't match pod affinity rules"},
		Lasting: true,
	}
	tooNear = plugin.Verdict{
		Plugin:  (*PodAffinity)(nil).Name(),
		Reasons: []string{"node(s) didn't match pod anti-affinity rules"},
	}
	unwelcome = plugin.Verdict{
		Plugin:  (*PodAffinity)(nil).Name(),
		Reasons: []string{"node(s) didn't satisfy existing pods anti-affinity rules"},
	}
)

// Name is InterPodAffinity.
func (*PodAffinity) Name() string { return "InterPodAffinity" }

// Heeds pods that come, go or change, and nodes and namespaces that do.
func (*PodAffinity) Heeds() cluster.Change {
	return cluster.PodPlaced | cluster.PodGone | cluster.PodChanged |
		cluster.NodeAdded | cluster.NodeGone | cluster.NodeLabels | cluster.NamespaceChanged
}

// Stand follows which placed pods care about pods of this shape, by which labels of nodes.
func (p *PodAffinity) Stand(shape *cluster.Shape, state *cluster.State) uint64 {
	return p.around(shape, state).stand
}

func (p *PodAffinity) around(shape *cluster.Shape, state *cluster.State) surroundings {
	epoch := state.OpinionEpoch()
	s, ok := p.known[shape]
	if ok && s.epoch == epoch {
		return s
	}
	if len(p.known) > 4096 {
		clear(p.known) // most of these shapes will be gone
	}
	s = lookAround(shape, state)
	s.epoch = epoch
	var h maphash.Hash
	h.SetSeed(p.seed)
	maphash.WriteComparable(&h, state.NamespaceEpoch())
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

func lookAround(shape *cluster.Shape, state *cluster.State) surroundings {
	apart, scored := make(map[string]bool), make(map[string]bool)
	for other := range state.Opinions() {
		for i := range other.AntiAffinity {
			if t := &other.AntiAffinity[i]; state.Selects(t, shape) {
				apart[t.TopologyKey] = true
			}
		}
		for i := range other.Affinity {
			if t := &other.Affinity[i]; state.Selects(t, shape) {
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
	return surroundings{apart: slices.Sorted(maps.Keys(apart)), scored: slices.Sorted(maps.Keys(scored))}
}

// Relate returns a filter and a score, as far as anybody cares.
func (p *PodAffinity) Relate(shape *cluster.Shape, state *cluster.State) []plugin.Relation {
	s := p.around(shape, state)
	var relations []plugin.Relation
	if len(shape.Affinity)+len(shape.AntiAffinity)+len(s.apart) > 0 {
		relations = append(relations, newAffinityFilter(shape, state, s.apart))
	}
	if len(s.scored) > 0 {
		relations = append(relations, newAffinityScore(shape, state, s.scored))
	}
	return relations
}

// tallies is a few of them that are kept together.
type tallies struct {
	all     []*tally
	counted uint64
	epoch   uint64
}

func (t *tallies) add(state *cluster.State, key string, weigh func(*cluster.Shape) int64) *tally {
	added := newTally(state, key, weigh)
	added.ending = true
	t.all = append(t.all, added)
	return added
}

func (t *tallies) Refresh(changed []int32) {
	var counted uint64
	for _, one := range t.all {
		one.refresh(changed)
		counted += one.epoch
	}
	if counted != t.counted {
		t.counted = counted
		t.epoch++
	}
}

func (t *tallies) Epoch() uint64 { return t.epoch }

// affinityFilter holds what one shape insists on, and what others insist on about it.
type affinityFilter struct {
	tallies
	near      []*tally
	apart     []*tally
	unwelcome []*tally
	// alone says that the pod would satisfy its own affinity: the first of its kind must be allowed to come.
	alone bool
	first bool // whether nobody who would satisfy it is anywhere
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

// affinityScore holds what one shape prefers, and what others prefer about it.
type affinityScore struct{ tallies }

// requiredWeight is what it adds that a pod nearby insists on this one's company.
const requiredWeight = 1

func newAffinityScore(shape *cluster.Shape, state *cluster.State, keys []string) *affinityScore {
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

// preference adds up the weights of the terms by this topology key that look at pods of a shape.
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
