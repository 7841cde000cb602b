package rules

import (
	"hash/maphash"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// PodAffinity places pods by pod affinity and anti-affinity, their own and that of placed pods.
type PodAffinity struct {
	options PodAffinityOptions
	seed    maphash.Seed
	known   map[*cluster.Shape]surroundings
}

// PodAffinityOptions are the arguments of the rule. The zero value has kube-scheduler's defaults.
type PodAffinityOptions struct {
	// RequiredWeight is the weight of the required affinity of placed pods towards the pod, in a node's score. nil
	// means 1.
	RequiredWeight *int64
	// IgnorePreferred ignores the preferred affinity of placed pods for pods that have no preferences.
	IgnorePreferred bool
}

func (o *PodAffinityOptions) requiredWeight() int64 {
	if o.RequiredWeight == nil {
		return 1
	}
	return *o.RequiredWeight
}

// NewPodAffinity returns the rule.
func NewPodAffinity(options PodAffinityOptions) *PodAffinity {
	return &PodAffinity{options: options, seed: maphash.MakeSeed(), known: make(map[*cluster.Shape]surroundings)}
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

// RequeuesOn lists placed, removed and changed pods, and changes of nodes and namespaces.
func (*PodAffinity) RequeuesOn() cluster.Change {
	return cluster.PodPlaced | cluster.PodGone | cluster.PodChanged |
		cluster.NodeAdded | cluster.NodeGone | cluster.NodeLabels | cluster.NamespaceChanged
}

// Version changes with the topology keys of the affinity of placed pods towards pods of this shape.
func (p *PodAffinity) Version(shape *cluster.Shape, state *cluster.State) uint64 {
	return p.around(shape, state).stand
}

// Relations returns a filter and a score, as far as there is any affinity.
func (p *PodAffinity) Relations(shape *cluster.Shape, state *cluster.State) []ruleset.Relation {
	s := p.around(shape, state)
	var relations []ruleset.Relation
	if len(shape.Affinity)+len(shape.AntiAffinity)+len(s.apart) > 0 {
		relations = append(relations, newAffinityFilter(shape, state, s.apart))
	}
	if len(s.scored) > 0 {
		relations = append(relations, newAffinityScore(shape, state, s.scored, p.options.requiredWeight()))
	}
	return relations
}

// tallies are several tallies that are refreshed together.
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

func (t *tallies) Version() uint64 { return t.epoch }
