package rules

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Resources keeps pods on nodes with enough free resources, and scores nodes by its strategy. By default it prefers
// those with most free resources.
type Resources struct {
	options  ResourcesOptions
	verdicts map[string]*plugin.Verdict // by the missing resources
}

// ResourcesOptions are the arguments of the rule. The zero value has kube-scheduler's defaults.
type ResourcesOptions struct {
	// Ignored are extended resources that are not checked. IgnoredGroups are prefixes of such names, before the slash.
	Ignored, IgnoredGroups []string
	Strategy               Strategy
}

// NewResources returns the rule.
func NewResources(options ResourcesOptions) *Resources {
	return &Resources{options: options, verdicts: make(map[string]*plugin.Verdict)}
}

// ignores reports whether an extended resource is not checked.
func (r *Resources) ignores(name corev1.ResourceName) bool {
	group, _, _ := strings.Cut(string(name), "/")
	return slices.Contains(r.options.Ignored, string(name)) || slices.Contains(r.options.IgnoredGroups, group)
}

// Name is NodeResourcesFit.
func (*Resources) Name() string { return "NodeResourcesFit" }

// Filter refuses nodes without enough free resources. The reasons name all that are missing. Those that are claimed are
// for [Devices].
func (r *Resources) Filter(demand *cluster.Demand, node *cluster.Node) *plugin.Verdict {
	var s shortage
	if node.Pods+1 > node.AllowedPods {
		s.full = true
	}
	need, have, used := &demand.Requests, &node.Allocatable, &node.Requested
	s.check(corev1.ResourceCPU, need.MilliCPU, have.MilliCPU, used.MilliCPU)
	s.check(corev1.ResourceMemory, need.Memory, have.Memory, used.Memory)
	s.check(corev1.ResourceEphemeralStorage, need.EphemeralStorage, have.EphemeralStorage, used.EphemeralStorage)
	if len(need.Extended) > 0 {
		for _, name := range slices.Sorted(maps.Keys(need.Extended)) {
			if r.ignores(name) || node.Claimed(name) {
				continue
			}
			s.check(name, need.Extended[name], have.Extended[name], used.Extended[name])
		}
	}
	if !s.full && len(s.names) == 0 {
		return nil
	}
	return r.verdict(&s)
}

// RequeuesOn lists new nodes, more allocatable resources, removed pods, and classes for extended resources.
func (*Resources) RequeuesOn() cluster.Change {
	return cluster.NodeAdded | cluster.NodeRoom | cluster.PodGone | cluster.ExtendedChanged
}

// ScoresExtended reports whether the strategy rates an extended resource.
func (r *Resources) ScoresExtended() bool {
	return slices.ContainsFunc(r.options.Strategy.Resources, func(w WeightedResource) bool { return cluster.IsExtended(w.Name) })
}

// shortage collects the missing resources of a node.
type shortage struct {
	full    bool // the node has its maximum of pods
	lasting bool // even the empty node is too small
	names   []corev1.ResourceName
}

func (s *shortage) check(name corev1.ResourceName, need, have, used int64) {
	if need > 0 && need > have-used {
		s.names = append(s.names, name)
		s.lasting = s.lasting || need > have
	}
}

func (r *Resources) verdict(s *shortage) *plugin.Verdict {
	var key strings.Builder
	if s.full {
		key.WriteString("pods ")
	}
	if s.lasting {
		key.WriteString("lasting ")
	}
	for _, name := range s.names {
		key.WriteString(string(name))
		key.WriteByte(' ')
	}
	if v, ok := r.verdicts[key.String()]; ok {
		return v
	}
	v := &plugin.Verdict{Plugin: r.Name(), Lasting: s.lasting}
	if s.full {
		v.Reasons = append(v.Reasons, "Too many pods")
	}
	for _, name := range s.names {
		v.Reasons = append(v.Reasons, "Insufficient "+string(name))
	}
	r.verdicts[key.String()] = v
	return v
}

// Score is the strategy's score. By default it is the percentage of cpu and memory that would be free.
func (r *Resources) Score(demand *cluster.Demand, node *cluster.Node) int64 {
	if !r.options.Strategy.isDefault() {
		return r.options.Strategy.score(demand, node)
	}
	var sum, count int64
	left := func(need, have, used int64) {
		if have == 0 {
			return
		}
		count++
		if rest := have - used - need; rest > 0 {
			sum += rest * plugin.MaxScore / have
		}
	}
	left(demand.Scored.MilliCPU, node.Allocatable.MilliCPU, node.Scored.MilliCPU)
	left(demand.Scored.Memory, node.Allocatable.Memory, node.Scored.Memory)
	if count == 0 {
		return 0
	}
	return sum / count
}
