package config

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/scheduler"
	"github.com/millrace/millrace/internal/scheduler/extender"
	"github.com/millrace/millrace/internal/scheduler/plugin"
	"github.com/millrace/millrace/internal/scheduler/rules"
)

// Apply sets the options that a configuration describes.
func Apply(file *File, o *scheduler.Options) error {
	o.Profiles = nil
	for i := range file.Profiles {
		p, err := profileOf(&file.Profiles[i], ignoredBy(file.Extenders))
		if err != nil {
			return fmt.Errorf("initializing profiles: creating profile for scheduler name %s: %w", *file.Profiles[i].SchedulerName, err)
		}
		o.Profiles = append(o.Profiles, p)
	}
	for i := range file.Extenders {
		e, err := extender.New(file.Extenders[i])
		if err != nil {
			return err
		}
		o.Extenders = append(o.Extenders, e)
	}
	o.Backlog.Backoff = time.Duration(*file.PodInitialBackoffSeconds) * time.Second
	o.Backlog.MaxBackoff = time.Duration(*file.PodMaxBackoffSeconds) * time.Second
	return nil
}

// profile collects the rules of one profile.
type profile struct {
	args          map[string]any
	filters       []configv1.Plugin
	scores        []configv1.Plugin
	resources     *rules.Resources
	rules         plugin.Set
	relationsSeen map[string]bool
}

// ignoredBy returns the resources that only extenders check.
func ignoredBy(extenders []configv1.Extender) []string {
	var ignored []string
	for i := range extenders {
		for _, r := range extenders[i].ManagedResources {
			if r.IgnoredByScheduler {
				ignored = append(ignored, r.Name)
			}
		}
	}
	return ignored
}

func profileOf(from *configv1.KubeSchedulerProfile, ignored []string) (scheduler.Profile, error) {
	p := &profile{args: make(map[string]any), relationsSeen: make(map[string]bool)}
	for i := range from.PluginConfig {
		p.args[from.PluginConfig[i].Name] = from.PluginConfig[i].Args.Object
	}
	enabled := make(map[string][]configv1.Plugin)
	for _, at := range points {
		list, err := enabledAt(from.Plugins, at)
		if err != nil {
			return scheduler.Profile{}, err
		}
		enabled[at.name] = list
	}
	switch {
	case len(enabled["QueueSortPlugin"]) != 1:
		return scheduler.Profile{}, fmt.Errorf("only one queue sort plugin required for profile with scheduler name %q, but got %d",
			*from.SchedulerName, len(enabled["QueueSortPlugin"]))
	case len(enabled["BindPlugin"]) == 0:
		return scheduler.Profile{}, fmt.Errorf("at least one bind plugin is needed for profile with scheduler name %q", *from.SchedulerName)
	}
	p.filters, p.scores = enabled["FilterPlugin"], enabled["ScorePlugin"]
	fit := resourcesOf(argsOf[configv1.NodeResourcesFitArgs](p, "NodeResourcesFit"))
	fit.Ignored = append(fit.Ignored, ignored...)
	p.resources = rules.NewResources(fit)
	for _, f := range p.filters {
		p.addFilter(f.Name)
	}
	for _, s := range p.scores {
		p.addScore(s)
	}
	made := scheduler.Profile{
		SchedulerName: *from.SchedulerName, Rules: &p.rules,
		NoPreemption: !names(enabled["PostFilterPlugin"], "DefaultPreemption"),
	}
	if a := argsOf[configv1.DefaultPreemptionArgs](p, "DefaultPreemption"); a != nil {
		made.Candidates = &scheduler.Candidates{Percent: int(*a.MinCandidateNodesPercentage), Least: int(*a.MinCandidateNodesAbsolute)}
	}
	return made, nil
}

func argsOf[T any](p *profile, name string) *T {
	args, _ := p.args[name].(*T)
	return args
}

func (p *profile) addFilter(name string) {
	add := func(f plugin.Filter) { p.rules.Filters = append(p.rules.Filters, f) }
	switch name {
	case "NodeUnschedulable":
		add(rules.Unschedulable{})
	case "TaintToleration":
		add(rules.Taints{})
	case "NodeAffinity":
		if added := p.addedAffinity(); added != nil && added.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			add(rules.AddedNodes{Match: demand.NodeSelectorMatch(added.RequiredDuringSchedulingIgnoredDuringExecution)})
		}
		add(rules.NodeAffinity{})
	case "NodePorts":
		add(rules.Ports{})
	case "NodeResourcesFit":
		add(p.resources)
	case "PodTopologySpread", "InterPodAffinity":
		p.addRelation(name)
	default:
		p.addPodRule(name)
	}
}

func (p *profile) addedAffinity() *corev1.NodeAffinity {
	if a := argsOf[configv1.NodeAffinityArgs](p, "NodeAffinity"); a != nil {
		return a.AddedAffinity
	}
	return nil
}

// addPodRule adds a rule for single pods.
func (p *profile) addPodRule(name string) {
	var rule plugin.PodRule
	switch name {
	case "VolumeRestrictions":
		rule = rules.VolumeRestrictions{}
	case "NodeVolumeLimits":
		rule = rules.VolumeLimits{}
	case "VolumeZone":
		rule = rules.VolumeZone{}
	case "VolumeBinding":
		binding := rules.VolumeBinding{}
		if a := argsOf[configv1.VolumeBindingArgs](p, name); a != nil {
			binding.Timeout, binding.Shape = time.Duration(*a.BindTimeoutSeconds)*time.Second, shapeOf(a.Shape)
		}
		rule = binding
	case "DynamicResources":
		devices := rules.DevicesOptions{}
		if a := argsOf[configv1.DynamicResourcesArgs](p, name); a != nil && a.BindingTimeout != nil {
			devices.BindingTimeout = a.BindingTimeout.Duration
		}
		rule = rules.NewDevices(devices)
	default:
		return
	}
	p.rules.Pods = append(p.rules.Pods, plugin.Weighted[plugin.PodRule]{Plugin: rule, Weight: p.weight(name)})
}

// weight returns the weight of a plugin's score; 0 if it is not enabled.
func (p *profile) weight(name string) int64 {
	i := slices.IndexFunc(p.scores, named(name))
	switch {
	case i < 0:
		return 0
	case p.scores[i].Weight == nil || *p.scores[i].Weight == 0:
		return 1
	}
	return int64(*p.scores[i].Weight)
}

func (p *profile) addScore(s configv1.Plugin) {
	add := func(score plugin.Score) {
		p.rules.Scores = append(p.rules.Scores, plugin.Weighted[plugin.Score]{Plugin: score, Weight: p.weight(s.Name)})
	}
	switch s.Name {
	case "TaintToleration":
		add(rules.Taints{})
	case "NodeAffinity":
		preferred := rules.PreferredNodes{}
		if added := p.addedAffinity(); added != nil {
			preferred.Added = demand.PreferredNodes(&corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: added}})
		}
		add(preferred)
	case "NodeResourcesFit":
		add(p.resources)
	case "NodeResourcesBalancedAllocation":
		add(rules.Balance{Resources: balanced(argsOf[configv1.NodeResourcesBalancedAllocationArgs](p, s.Name))})
	case "PodTopologySpread", "InterPodAffinity", "ImageLocality":
		p.addRelation(s.Name)
	}
}

// addRelation adds a rule that depends on the whole cluster, with the parts that are enabled.
func (p *profile) addRelation(name string) {
	if p.relationsSeen[name] {
		return
	}
	p.relationsSeen[name] = true
	var rule plugin.Relational
	switch name {
	case "PodTopologySpread":
		rule = rules.NewSpread(spreadOf(argsOf[configv1.PodTopologySpreadArgs](p, name)))
	case "InterPodAffinity":
		rule = rules.NewPodAffinity(affinityOf(argsOf[configv1.InterPodAffinityArgs](p, name)))
	case "ImageLocality":
		rule = rules.Images{}
	}
	if filters, scores := names(p.filters, name), names(p.scores, name); name != "ImageLocality" && !(filters && scores) {
		rule = rules.Part(rule, filters, scores)
	}
	p.rules.Relations = append(p.rules.Relations, plugin.Weighted[plugin.Relational]{Plugin: rule, Weight: p.weight(name)})
}
