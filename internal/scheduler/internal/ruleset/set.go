package ruleset

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Bits is a set of rules, one bit each: first the filters of a Set, then its relational rules, then its pod rules.
type Bits uint64

const (
	// All contains any rule.
	All = ^Bits(0)
	// Max is the maximum number of filters and relational rules in a set.
	Max = 64
)

// Set is a compiled plugin.Set.
type Set struct {
	Filters   []plugin.Filter
	Scores    []plugin.Weighted[plugin.Score]
	Relations []plugin.Weighted[Rule]
	Pods      []plugin.Weighted[plugin.PodRule]
}

// Compile compiles a set. It is an error if there are too many rules, or a relational one of an unknown type.
func Compile(from *plugin.Set) (*Set, error) {
	if len(from.Filters)+len(from.Relations)+len(from.Pods) > Max {
		return nil, fmt.Errorf("more than %d filters", Max)
	}
	set := &Set{Filters: from.Filters, Scores: from.Scores, Pods: from.Pods}
	for _, r := range from.Relations {
		var rule Rule
		switch p := r.Plugin.(type) {
		case Rule:
			rule = p
		case plugin.ClusterRule:
			rule = &surveyed{p}
		default:
			return nil, fmt.Errorf("%s is neither a plugin.ClusterRule nor a rule of package rules", r.Plugin.Name())
		}
		set.Relations = append(set.Relations, plugin.Weighted[Rule]{Plugin: rule, Weight: r.Weight})
	}
	return set, nil
}

// Named returns the bits of each rule that refuses nodes, by name.
func (s *Set) Named() map[string]Bits {
	names := make(map[string]Bits)
	for i, f := range s.Filters {
		names[f.Name()] |= 1 << i
	}
	for i, r := range s.Relations {
		names[r.Plugin.Name()] |= 1 << (len(s.Filters) + i)
	}
	for i, r := range s.Pods {
		names[r.Plugin.Name()] |= 1 << (len(s.Filters) + len(s.Relations) + i)
	}
	return names
}

// RequeuedBy returns the rules whose results may change after a change.
func (s *Set) RequeuedBy(change cluster.Change) Bits {
	var bits Bits
	for i, f := range s.Filters {
		if requeues(f, change) {
			bits |= 1 << i
		}
	}
	for i, r := range s.Relations {
		if requeues(r.Plugin, change) {
			bits |= 1 << (len(s.Filters) + i)
		}
	}
	for i, r := range s.Pods {
		if requeues(r.Plugin, change) {
			bits |= 1 << (len(s.Filters) + len(s.Relations) + i)
		}
	}
	return bits
}

func requeues(p plugin.Plugin, change cluster.Change) bool {
	if s, ok := p.(*surveyed); ok {
		p = s.rule
	}
	r, ok := p.(plugin.Requeuer)
	return !ok || r.RequeuesOn()&change != 0 || anyway(p, change)
}

// anyway reports whether pods that a rule has refused are tried again after a change that it does not list:
// kube-scheduler tries those that could go to new nodes whenever a taint changes, wherever that is. So what they are
// told follows the taints.
func anyway(p plugin.Plugin, change cluster.Change) bool {
	r, ok := p.(plugin.Requeuer)
	if !ok || change&cluster.NodeTaints == 0 || change&cluster.NodeAdded != 0 {
		return false
	}
	on := r.RequeuesOn()
	return on&cluster.NodeAdded != 0 && on&cluster.NodeTaints == 0
}

// Helps reports whether a change may let a pod be placed that was refused by these rules, which the change may affect.
// node is the node that changed, if it was one: then other nodes are unchanged for filters, and this one can be checked
// now, except for rules that count as affected by any taint.
//
// Only the rules that refused are checked. Another rule may refuse the node now. Then the pod must be tried, so that it
// is recorded that it waits for that rule from now on.
func (s *Set) Helps(refused Bits, change cluster.Change, demand *cluster.Demand, node *cluster.Node) bool {
	if refused == 0 {
		return false
	}
	if node == nil || refused>>len(s.Filters) != 0 {
		return true
	}
	for i, f := range s.Filters {
		if refused&(1<<i) != 0 && (anyway(f, change) || Skips(f, demand) || f.Filter(demand, node) == nil) {
			return true
		}
	}
	return false
}

// Readers returns the rules that read parts of a pod which a demand does not contain.
func (s *Set) Readers() []cluster.PodReader {
	var readers []cluster.PodReader
	add := func(p plugin.Plugin) {
		if r, ok := p.(plugin.PodReader); ok {
			readers = append(readers, cluster.PodReader{Name: p.Name(), Read: r.ReadPod})
		}
	}
	for _, f := range s.Filters {
		add(f)
	}
	for _, score := range s.Scores {
		add(score.Plugin)
	}
	return readers
}

// ScoresExtended reports whether a rule rates nodes by their amounts of extended resources.
func (s *Set) ScoresExtended() bool {
	return slices.ContainsFunc(s.Scores, func(score plugin.Weighted[plugin.Score]) bool {
		r, ok := score.Plugin.(interface{ ScoresExtended() bool })
		return ok && r.ScoresExtended()
	})
}
