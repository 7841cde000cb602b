package config

import (
	"fmt"
	"slices"

	configv1 "k8s.io/kube-scheduler/config/v1"
)

// point is an extension point.
type point struct {
	name string // the name in messages
	set  func(*configv1.Plugins) *configv1.PluginSet
}

// points are the extension points in the order in which they are checked.
var points = []point{
	{"PreEnqueuePlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.PreEnqueue }},
	{"QueueSortPlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.QueueSort }},
	{"PreFilterPlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.PreFilter }},
	{"FilterPlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.Filter }},
	{"PostFilterPlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.PostFilter }},
	{"PreScorePlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.PreScore }},
	{"ScorePlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.Score }},
	{"ReservePlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.Reserve }},
	{"PermitPlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.Permit }},
	{"PreBindPlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.PreBind }},
	{"BindPlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.Bind }},
	{"PostBindPlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.PostBind }},
}

// known are the plugins with their extension points.
var known = map[string][]string{
	"SchedulingGates":                 {"PreEnqueuePlugin"},
	"PrioritySort":                    {"QueueSortPlugin"},
	"NodeName":                        {"FilterPlugin"},
	"NodeUnschedulable":               {"FilterPlugin"},
	"TaintToleration":                 {"FilterPlugin", "PreScorePlugin", "ScorePlugin"},
	"NodeAffinity":                    {"PreFilterPlugin", "FilterPlugin", "PreScorePlugin", "ScorePlugin"},
	"NodePorts":                       {"PreFilterPlugin", "FilterPlugin"},
	"NodeResourcesFit":                {"PreFilterPlugin", "FilterPlugin", "PreScorePlugin", "ScorePlugin"},
	"VolumeRestrictions":              {"PreFilterPlugin", "FilterPlugin"},
	"NodeVolumeLimits":                {"PreFilterPlugin", "FilterPlugin"},
	"VolumeBinding":                   {"PreFilterPlugin", "FilterPlugin", "ReservePlugin", "PreBindPlugin", "PreScorePlugin", "ScorePlugin"},
	"VolumeZone":                      {"PreFilterPlugin", "FilterPlugin"},
	"PodTopologySpread":               {"PreFilterPlugin", "FilterPlugin", "PreScorePlugin", "ScorePlugin"},
	"InterPodAffinity":                {"PreFilterPlugin", "FilterPlugin", "PreScorePlugin", "ScorePlugin"},
	"DynamicResources":                {"PreEnqueuePlugin", "PreFilterPlugin", "FilterPlugin", "PostFilterPlugin", "ScorePlugin", "ReservePlugin", "PreBindPlugin"},
	"DefaultPreemption":               {"PreEnqueuePlugin", "PostFilterPlugin"},
	"NodeResourcesBalancedAllocation": {"PreScorePlugin", "ScorePlugin"},
	"ImageLocality":                   {"ScorePlugin"},
	"DefaultBinder":                   {"BindPlugin"},
	"NodeDeclaredFeatures":            {"PreFilterPlugin", "FilterPlugin"},
}

// defaultPlugins returns kube-scheduler's default plugins.
func defaultPlugins() *configv1.Plugins {
	weighted := func(name string, weight int32) configv1.Plugin { return configv1.Plugin{Name: name, Weight: &weight} }
	return &configv1.Plugins{MultiPoint: configv1.PluginSet{Enabled: []configv1.Plugin{
		{Name: "SchedulingGates"}, {Name: "PrioritySort"}, {Name: "NodeName"}, {Name: "NodeUnschedulable"},
		weighted("TaintToleration", 3), weighted("NodeAffinity", 2), {Name: "NodePorts"}, weighted("NodeResourcesFit", 1),
		{Name: "VolumeRestrictions"}, {Name: "NodeVolumeLimits"}, {Name: "VolumeBinding"}, {Name: "VolumeZone"},
		weighted("PodTopologySpread", 2), weighted("InterPodAffinity", 2), weighted("DynamicResources", 2), {Name: "DefaultPreemption"},
		weighted("NodeResourcesBalancedAllocation", 1), weighted("ImageLocality", 1), {Name: "DefaultBinder"}, {Name: "NodeDeclaredFeatures"},
	}}}
}

// merge applies a profile's changes to the defaults.
func merge(defaults, custom *configv1.Plugins) *configv1.Plugins {
	if custom == nil {
		return defaults
	}
	defaults.MultiPoint = mergeSet(defaults.MultiPoint, custom.MultiPoint)
	for _, at := range points {
		*at.set(defaults) = mergeSet(*at.set(defaults), *at.set(custom))
	}
	return defaults
}

// mergeSet keeps the order of the defaults, replaces weights that the profile sets, and appends new plugins.
func mergeSet(defaults, custom configv1.PluginSet) configv1.PluginSet {
	merged := configv1.PluginSet{Disabled: append(slices.Clone(custom.Disabled), defaults.Disabled...)}
	replaced := make(map[string]bool)
	for _, p := range defaults.Enabled {
		if names(merged.Disabled, "*") || names(merged.Disabled, p.Name) {
			continue
		}
		if i := slices.IndexFunc(custom.Enabled, named(p.Name)); i >= 0 {
			p = custom.Enabled[i]
			replaced[p.Name] = true
		}
		merged.Enabled = append(merged.Enabled, p)
	}
	for _, p := range custom.Enabled {
		if !replaced[p.Name] {
			merged.Enabled = append(merged.Enabled, p)
		}
	}
	return merged
}

func named(name string) func(configv1.Plugin) bool {
	return func(p configv1.Plugin) bool { return p.Name == name }
}

func names(list []configv1.Plugin, name string) bool { return slices.ContainsFunc(list, named(name)) }

// needed returns the names of all plugins that are enabled at some point.
func needed(p *configv1.Plugins) []string {
	var all []string
	add := func(set *configv1.PluginSet) {
		for _, enabled := range set.Enabled {
			if !slices.Contains(all, enabled.Name) {
				all = append(all, enabled.Name)
			}
		}
	}
	add(&p.MultiPoint)
	for _, at := range points {
		add(at.set(p))
	}
	return all
}

// enabledAt returns the plugins at one extension point: first those that are enabled both there and by multiPoint, then
// those enabled by multiPoint only, then the others.
func enabledAt(p *configv1.Plugins, at point) ([]configv1.Plugin, error) {
	set := at.set(p)
	for i, enabled := range set.Enabled {
		switch does, ok := known[enabled.Name]; {
		case !ok:
			return nil, fmt.Errorf("%s %q does not exist", at.name, enabled.Name)
		case !slices.Contains(does, at.name):
			return nil, fmt.Errorf("plugin %q does not extend %s plugin", enabled.Name, at.name)
		case names(set.Enabled[:i], enabled.Name):
			return nil, fmt.Errorf("plugin %q already registered as %q", enabled.Name, at.name)
		}
	}
	var first, second, third []configv1.Plugin
	for i, multi := range p.MultiPoint.Enabled {
		does, ok := known[multi.Name]
		switch {
		case !ok:
			return nil, fmt.Errorf("%s %q does not exist", at.name, multi.Name)
		case !slices.Contains(does, at.name), names(set.Disabled, "*"), names(set.Disabled, multi.Name), names(set.Enabled, multi.Name):
		case names(p.MultiPoint.Enabled[:i], multi.Name):
			return nil, fmt.Errorf("plugin %q already registered as %q", multi.Name, at.name)
		default:
			second = append(second, multi)
		}
	}
	for _, enabled := range set.Enabled {
		if names(p.MultiPoint.Enabled, enabled.Name) {
			first = append(first, enabled)
		} else {
			third = append(third, enabled)
		}
	}
	return slices.Concat(first, second, third), nil
}
