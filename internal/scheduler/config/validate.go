package config

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	componentv1alpha1 "k8s.io/component-base/config/v1alpha1"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// problems collects errors.
type problems []error

func (p *problems) add(err *field.Error) { *p = append(*p, err) }

func (p *problems) addAll(list field.ErrorList) {
	for _, err := range list {
		*p = append(*p, err)
	}
}

// validate validates a configuration that has its defaults.
func validate(file *File) error {
	var p problems
	if file.ClientConnection.Burst < 0 {
		p.add(field.Invalid(field.NewPath("clientConnection", "burst"), file.ClientConnection.Burst, "must be non-negative"))
	}
	p.election(&file.LeaderElection, field.NewPath("leaderElection"))
	if *file.Parallelism <= 0 {
		p.add(field.Invalid(field.NewPath("parallelism"), *file.Parallelism, "should be an integer value greater than zero"))
	}
	p.profiles(file, field.NewPath("profiles"))
	p.percentage(field.NewPath("percentageOfNodesToScore"), file.PercentageOfNodesToScore)
	if first := *file.PodInitialBackoffSeconds; first <= 0 {
		p.add(field.Invalid(field.NewPath("podInitialBackoffSeconds"), first, "must be greater than 0"))
	}
	if most := *file.PodMaxBackoffSeconds; most < *file.PodInitialBackoffSeconds {
		p.add(field.Invalid(field.NewPath("podMaxBackoffSeconds"), most, "must be greater than or equal to PodInitialBackoffSeconds"))
	}
	p.extenders(file.Extenders, field.NewPath("extenders"))
	if all := utilerrors.Flatten(utilerrors.NewAggregate(p)); all != nil {
		return all
	}
	return nil
}

func (p *problems) election(e *componentv1alpha1.LeaderElectionConfiguration, path *field.Path) {
	if !*e.LeaderElect {
		return
	}
	if e.LeaseDuration.Duration <= 0 {
		p.add(field.Invalid(path.Child("leaseDuration"), e.LeaseDuration, "must be greater than zero"))
	}
	if e.RenewDeadline.Duration <= 0 {
		p.add(field.Invalid(path.Child("renewDeadline"), e.RenewDeadline, "must be greater than zero"))
	}
	if e.RetryPeriod.Duration <= 0 {
		p.add(field.Invalid(path.Child("retryPeriod"), e.RetryPeriod, "must be greater than zero"))
	}
	if e.LeaseDuration.Duration <= e.RenewDeadline.Duration {
		p.add(field.Invalid(path.Child("leaseDuration"), e.RenewDeadline, "must be greater than `RenewDeadline`"))
	}
	if e.ResourceLock != "leases" {
		p.add(field.Invalid(path.Child("resourceLock"), e.ResourceLock, `resourceLock value must be "leases"`))
	}
}

func (p *problems) percentage(path *field.Path, percentage *int32) {
	if percentage != nil && (*percentage < 0 || *percentage > 100) {
		p.add(field.Invalid(path, *percentage, "not in valid range [0-100]"))
	}
}

func (p *problems) profiles(file *File, path *field.Path) {
	seen := make(map[string]int)
	for i := range file.Profiles {
		profile, at := &file.Profiles[i], path.Index(i)
		name := ""
		if profile.SchedulerName != nil {
			name = *profile.SchedulerName
		}
		if name == "" {
			p.add(field.Required(at.Child("schedulerName"), ""))
		}
		p.percentage(at.Child("percentageOfNodesToScore"), profile.PercentageOfNodesToScore)
		p.pluginConfig(profile, file.APIVersion, at)
		if first, ok := seen[name]; ok {
			p.add(field.Duplicate(at.Child("schedulerName"), path.Index(first).Child("schedulerName")))
		}
		seen[name] = i
		if i > 0 && !apiequality.Semantic.DeepEqual(file.Profiles[0].Plugins.QueueSort, profile.Plugins.QueueSort) {
			p.add(field.Invalid(at.Child("plugins", "queueSort"), profile.Plugins.QueueSort, "must be the same for all profiles"))
		}
	}
	if n := len(file.Profiles[0].Plugins.QueueSort.Enabled); n > 1 {
		p.add(field.Invalid(path.Index(0).Child("plugins", "queueSort", "Enabled"), n, "only one queue sort plugin can be enabled"))
	}
}

// removed are plugins of earlier versions.
var removed = map[string]bool{"AzureDiskLimits": true, "CinderLimits": true, "EBSLimits": true, "GCEPDLimits": true}

func wasInvalid(path *field.Path, name, version string) *field.Error {
	return field.Invalid(path, name, fmt.Sprintf("was invalid in version %q (KubeSchedulerConfiguration is version %q)", configv1.SchemeGroupVersion, version))
}

func (p *problems) pluginConfig(profile *configv1.KubeSchedulerProfile, version string, path *field.Path) {
	for _, at := range points {
		name := strings.TrimSuffix(at.name, "Plugin")
		name = strings.ToLower(name[:1]) + name[1:]
		for i, enabled := range at.set(profile.Plugins).Enabled {
			if removed[enabled.Name] {
				p.add(wasInvalid(path.Child("plugins", name, "enabled").Index(i), enabled.Name, version))
			}
		}
	}
	seen := make(map[string]bool)
	for i := range profile.PluginConfig {
		c, at := &profile.PluginConfig[i], path.Child("pluginConfig").Index(i)
		if seen[c.Name] {
			p.add(field.Duplicate(at, c.Name))
		}
		seen[c.Name] = true
		if removed[c.Name] {
			p.add(wasInvalid(at, c.Name, version))
			continue
		}
		p.args(c.Args.Object, at.Child("args"))
	}
}

func (p *problems) extenders(list []configv1.Extender, path *field.Path) {
	binders, managed := 0, make(map[string]bool)
	for i := range list {
		e, at := &list[i], path.Index(i)
		if e.PrioritizeVerb != "" && e.Weight <= 0 {
			p.add(field.Invalid(at.Child("weight"), e.Weight, "must have a positive weight applied to it"))
		}
		if e.BindVerb != "" {
			binders++
		}
		for j, r := range e.ManagedResources {
			name := at.Child("managedResources").Index(j).Child("name")
			p.extendedName(name, r.Name)
			if managed[r.Name] {
				p.add(field.Invalid(name, r.Name, "duplicate extender managed resource name"))
			}
			managed[r.Name] = true
		}
	}
	if binders > 1 {
		p.add(field.Invalid(path, fmt.Sprintf("found %d extenders implementing bind", binders), "only one extender can implement bind"))
	}
}

func (p *problems) extendedName(path *field.Path, name string) {
	messages := validation.IsQualifiedName(name)
	for _, message := range messages {
		p.add(field.Invalid(path, corev1.ResourceName(name), message))
	}
	native := !strings.Contains(name, "/") || strings.Contains(name, corev1.ResourceDefaultNamespacePrefix)
	if len(messages) == 0 && (native || strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix)) {
		p.add(field.Invalid(path, name, "is an invalid extended resource name"))
	}
}
