package config

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	componentv1alpha1 "k8s.io/component-base/config/v1alpha1"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// setDefault sets a missing field.
func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func setDefaults(file *File) {
	file.APIVersion = cmp.Or(file.APIVersion, configv1.SchemeGroupVersion.String())
	file.Kind = cmp.Or(file.Kind, "KubeSchedulerConfiguration")
	setDefault(&file.Parallelism, 16)
	if len(file.Profiles) == 0 {
		file.Profiles = []configv1.KubeSchedulerProfile{{}}
	}
	if len(file.Profiles) == 1 {
		setDefault(&file.Profiles[0].SchedulerName, corev1.DefaultSchedulerName)
	}
	for i := range file.Profiles {
		setProfileDefaults(&file.Profiles[i])
	}
	setDefault(&file.PercentageOfNodesToScore, 0)
	setElectionDefaults(&file.LeaderElection)
	c := &file.ClientConnection
	c.ContentType = cmp.Or(c.ContentType, runtime.ContentTypeProtobuf)
	c.QPS, c.Burst = cmp.Or(c.QPS, 50), cmp.Or(c.Burst, 100)
	setDefault(&file.PodInitialBackoffSeconds, 1)
	setDefault(&file.PodMaxBackoffSeconds, 10)
	setDefault(&file.EnableProfiling, true)
	if *file.EnableProfiling {
		setDefault(&file.EnableContentionProfiling, true)
	}
}

func setElectionDefaults(e *componentv1alpha1.LeaderElectionConfiguration) {
	e.ResourceLock = cmp.Or(e.ResourceLock, "leases")
	e.ResourceNamespace = cmp.Or(e.ResourceNamespace, configv1.SchedulerDefaultLockObjectNamespace)
	e.ResourceName = cmp.Or(e.ResourceName, configv1.SchedulerDefaultLockObjectName)
	setDefault(&e.LeaderElect, true)
	for field, value := range map[*metav1.Duration]time.Duration{
		&e.LeaseDuration: 15 * time.Second, &e.RenewDeadline: 10 * time.Second, &e.RetryPeriod: 2 * time.Second,
	} {
		field.Duration = cmp.Or(field.Duration, value)
	}
}

// setProfileDefaults adds the default arguments of plugins.
func setProfileDefaults(p *configv1.KubeSchedulerProfile) {
	merged := merge(defaultPlugins(), p.Plugins)
	p.Plugins = merged
	given := make(map[string]bool)
	for i := range p.PluginConfig {
		c := &p.PluginConfig[i]
		given[c.Name] = true
		if c.Args.Object == nil {
			c.Args.Object = newArgs(c.Name)
		}
		setArgsDefaults(c.Args.Object)
	}
	for _, enabled := range needed(merged) {
		if args := newArgs(enabled); args != nil && !given[enabled] {
			setArgsDefaults(args)
			p.PluginConfig = append(p.PluginConfig, configv1.PluginConfig{Name: enabled, Args: runtime.RawExtension{Object: args}})
		}
	}
}

// newArgs returns empty arguments for a plugin, or nil if it has no arguments.
func newArgs(plugin string) runtime.Object {
	switch plugin {
	case "DefaultPreemption":
		return &configv1.DefaultPreemptionArgs{}
	case "InterPodAffinity":
		return &configv1.InterPodAffinityArgs{}
	case "NodeAffinity":
		return &configv1.NodeAffinityArgs{}
	case "NodeResourcesBalancedAllocation":
		return &configv1.NodeResourcesBalancedAllocationArgs{}
	case "NodeResourcesFit":
		return &configv1.NodeResourcesFitArgs{}
	case "PodTopologySpread":
		return &configv1.PodTopologySpreadArgs{}
	case "VolumeBinding":
		return &configv1.VolumeBindingArgs{}
	case "DynamicResources":
		return &configv1.DynamicResourcesArgs{}
	}
	return nil
}

func setArgsDefaults(args runtime.Object) {
	switch a := args.(type) {
	case *configv1.DefaultPreemptionArgs:
		setDefault(&a.MinCandidateNodesPercentage, 10)
		setDefault(&a.MinCandidateNodesAbsolute, 100)
	case *configv1.InterPodAffinityArgs:
		setDefault(&a.HardPodAffinityWeight, 1)
	case *configv1.NodeResourcesBalancedAllocationArgs:
		a.Resources = withWeights(a.Resources)
	case *configv1.NodeResourcesFitArgs:
		if a.ScoringStrategy == nil {
			a.ScoringStrategy = &configv1.ScoringStrategy{Type: configv1.LeastAllocated}
		}
		a.ScoringStrategy.Resources = withWeights(a.ScoringStrategy.Resources)
	case *configv1.PodTopologySpreadArgs:
		if a.DefaultingType == "" {
			a.DefaultingType = configv1.SystemDefaulting
		}
	case *configv1.VolumeBindingArgs:
		setDefault(&a.BindTimeoutSeconds, 600)
		if len(a.Shape) == 0 {
			a.Shape = []configv1.UtilizationShapePoint{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}}
		}
	case *configv1.DynamicResourcesArgs:
		setDefault(&a.FilterTimeout, metav1.Duration{Duration: configv1.DynamicResourcesFilterTimeoutDefault})
		setDefault(&a.BindingTimeout, metav1.Duration{Duration: configv1.DynamicResourcesBindingTimeoutDefault})
	}
}

func withWeights(list []configv1.ResourceSpec) []configv1.ResourceSpec {
	if len(list) == 0 {
		return []configv1.ResourceSpec{{Name: string(corev1.ResourceCPU), Weight: 1}, {Name: string(corev1.ResourceMemory), Weight: 1}}
	}
	for i := range list {
		list[i].Weight = cmp.Or(list[i].Weight, 1)
	}
	return list
}
