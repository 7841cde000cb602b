package rules

import (
	"hash/maphash"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/scheduler/internal/cluster"
	"github.com/millrace/millrace/scheduler/internal/ruleset"
	"github.com/millrace/millrace/scheduler/plugin"
)

// Spread spreads pods over zones, hosts or whatever their constraints name.
// Pods without constraints of their own that belong to a service or a workload
// are spread over hosts and zones, as far as other scores let them.
type Spread struct {
	options  SpreadOptions
	seed     maphash.Seed
	defaults map[*cluster.Shape]defaultSpread
}

// defaultSpread is the selector that a shape is spread by if it says nothing itself.
type defaultSpread struct {
	epoch    uint64
	selector labels.Selector // nil: none
	stand    uint64
}

// SpreadOptions are the arguments of the rule. The zero value has kube-scheduler's defaults.
type SpreadOptions struct {
	// Listed says that Default is for pods without constraints of their own, instead of constraints that should hold for
	// hosts and zones. Their selectors are those of the pod's services and owner.
	Listed  bool
	Default []corev1.TopologySpreadConstraint
}

// NewSpread returns the rule.
func NewSpread(options SpreadOptions) *Spread {
	return &Spread{options: options, seed: maphash.MakeSeed(), defaults: make(map[*cluster.Shape]defaultSpread)}
}

var (
	skewed = plugin.Verdict{
		Plugin:  (*Spread)(nil).Name(),
		Reasons: []string{"node(s) didn't match pod topology spread constraints"},
	}
	withoutTopology = plugin.Verdict{
		Plugin:  (*Spread)(nil).Name(),
		Reasons: []string{"node(s) didn't match pod topology spread constraints (missing required label)"},
		Lasting: true,
	}
)

// Name is PodTopologySpread.
func (*Spread) Name() string { return "PodTopologySpread" }

// RequeuesOn lists all that moves a domain's count, or the smallest of them.
func (*Spread) RequeuesOn() cluster.Change {
	return cluster.NodeAdded | cluster.NodeGone | cluster.NodeLabels | cluster.NodeTaints |
		cluster.PodPlaced | cluster.PodGone | cluster.PodChanged
}

// Version follows the selector of the default constraints.
func (s *Spread) Version(shape *cluster.Shape, state *cluster.State) uint64 {
	if len(shape.Spread) > 0 {
		return 0
	}
	return s.defaultOf(shape, state).stand
}

func (s *Spread) defaultOf(shape *cluster.Shape, state *cluster.State) defaultSpread {
	epoch := state.WorkloadsVersion(shape.Namespace)
	d, ok := s.defaults[shape]
	if ok && d.epoch == epoch {
		return d
	}
	if len(s.defaults) > 4096 {
		clear(s.defaults) // most of these shapes will be gone
	}
	d = defaultSpread{epoch: epoch, selector: state.WorkloadSelector(shape)}
	if d.selector != nil {
		d.stand = maphash.String(s.seed, d.selector.String())
	}
	s.defaults[shape] = d
	return d
}

// Relations returns a filter for constraints that must hold and a score for those that should.
func (s *Spread) Relations(shape *cluster.Shape, state *cluster.State) []ruleset.Relation {
	constraints, own := shape.Spread, true
	if len(constraints) == 0 {
		selector := s.defaultOf(shape, state).selector
		if selector == nil {
			return nil
		}
		constraints, own = s.defaultConstraints(selector), s.options.Listed
	}
	var hard, soft []cluster.SpreadConstraint
	for _, c := range constraints {
		if c.Hard {
			hard = append(hard, c)
		} else {
			soft = append(soft, c)
		}
	}
	var relations []ruleset.Relation
	if len(hard) > 0 {
		relations = append(relations, newSpreadFilter(shape, state, hard))
	}
	if len(soft) > 0 {
		relations = append(relations, newSpreadScore(shape, state, soft, own))
	}
	return relations
}

func (s *Spread) defaultConstraints(selector labels.Selector) []cluster.SpreadConstraint {
	if s.options.Listed {
		listed := cluster.SpreadConstraints(s.options.Default, nil)
		for i := range listed {
			listed[i].Selector = selector
		}
		return listed
	}
	soft := func(key string, skew int64) cluster.SpreadConstraint {
		return cluster.SpreadConstraint{TopologyKey: key, MaxSkew: skew, MinDomains: 1, Selector: selector, HonorAffinity: true}
	}
	return []cluster.SpreadConstraint{soft(corev1.LabelHostname, 3), soft(corev1.LabelTopologyZone, 5)}
}

// newSpreadTally counts the pods that a constraint selects. Where several
// constraints need all their labels, a node that lacks one counts for none.
func newSpreadTally(shape *cluster.Shape, state *cluster.State, c *cluster.SpreadConstraint, needed []cluster.SpreadConstraint) *tally {
	t := newTally(state, c.TopologyKey, func(other *cluster.Shape) int64 {
		if other.Namespace == shape.Namespace && c.Selector.Matches(other.Labels) {
			return 1
		}
		return 0
	})
	t.counts = func(node *cluster.Node) bool {
		for i := range needed {
			if _, ok := node.Labels[needed[i].TopologyKey]; !ok {
				return false
			}
		}
		if c.HonorAffinity && !shape.Match.Matches(node.Name, node.Labels) {
			return false
		}
		return !c.HonorTaints || Taints{}.Filter(shape.Demand, node) == nil
	}
	return t
}
