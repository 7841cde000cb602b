package rules

import "github.com/millrace/millrace/internal/scheduler/plugin"

// Defaults returns kube-scheduler's rules with their order and weights.
func Defaults() *plugin.Set {
	resources := NewResources(ResourcesOptions{})
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
			{Plugin: NewSpread(SpreadOptions{}), Weight: 2},
			{Plugin: NewPodAffinity(PodAffinityOptions{}), Weight: 2},
			{Plugin: Images{}, Weight: 1},
		},
		Pods: []plugin.Weighted[plugin.PodRule]{
			{Plugin: VolumeRestrictions{}}, {Plugin: VolumeLimits{}}, {Plugin: VolumeBinding{}, Weight: 1}, {Plugin: VolumeZone{}},
			{Plugin: NewDevices(DevicesOptions{}), Weight: 2},
		},
	}
}
