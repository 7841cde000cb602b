package rules

import (
	"hash/maphash"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Spread spreads pods over the topology domains of their constraints. Pods without constraints that belong to a service
// or a workload are spread over hosts and zones, as a preference.
type Spread struct {
	options  SpreadOptions
	seed     maphash.Seed
	defaults map[*cluster.Shape]defaultSpread
}

// defaultSpread is the selector for default spreading of a shape.
type defaultSpread struct {
	epoch    uint64
	selector labels.Selector // nil: none
	stand    uint64
}

// SpreadOptions are the arguments of the rule. The zero value has kube-scheduler's defaults.
type SpreadOptions struct {
	// Listed means that Default is used for pods without constraints, instead of the built-in preferences for hosts and
	// zones. The selector is that of the pod's services and owner.
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

// RequeuesOn lists everything that changes a domain's count or the lowest count.
func (*Spread) RequeuesOn() cluster.Change {
	return cluster.NodeAdded | cluster.NodeGone | cluster.NodeLabels | cluster.NodeTaints |
		cluster.PodPlaced | cluster.PodGone | cluster.PodChanged
}

// Version changes with the selector of the default constraints.
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
		clear(s.defaults) // most of these shapes have no pods any more
	}
	d = defaultSpread{epoch: epoch, selector: state.WorkloadSelector(shape)}
	if d.selector != nil {
		d.stand = maphash.String(s.seed, d.selector.String())
	}
	s.defaults[shape] = d
	return d
}

// Relations returns a filter for DoNotSchedule constraints and a score for ScheduleAnyway constraints.
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

// newSpreadTally counts the pods that a constraint selects. If several constraints need all their labels, a node
// without one of them counts for none.
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
