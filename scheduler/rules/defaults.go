package rules

import "github.com/millrace/millrace/scheduler/plugin"

// Defaults returns kube-scheduler's rules with their order and weights.
func Defaults() *plugin.Set {
	resources := NewResources()
	return &plugin.Set{
		Filters: []plugin.Filter{
			Unschedulable{}, Taints{}, NodeAffinity{}, Ports{}, resources,
		},
		Scores: []plugin.Weighted[plugin.Score]{
			{Plugin: Taints{}, Weight: 3},
			{Plugin: PreferredNodes{}, Weight: 2},
			{Plugin: resources, Weight: 1},
			{Plugin: Balance{}, Weight: 1},
		},
		Relations: []plugin.Weighted[plugin.Relational]{
			{Plugin: NewSpread(), Weight: 2},
			{Plugin: NewPodAffinity(), Weight: 2},
			{Plugin: Images{}, Weight: 1},
		},
	}
}
