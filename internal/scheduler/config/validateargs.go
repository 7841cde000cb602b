package config

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// args validates the arguments of a plugin.
func (p *problems) args(args runtime.Object, path *field.Path) {
	switch a := args.(type) {
	case *configv1.DefaultPreemptionArgs:
		p.preemption(a, path)
	case *configv1.InterPodAffinityArgs:
		if w := *a.HardPodAffinityWeight; w < 0 || w > 100 {
			p.add(field.Invalid(path.Child("hardPodAffinityWeight"), w, "not in valid range [0, 100]"))
		}
	case *configv1.NodeAffinityArgs:
		p.addedAffinity(a.AddedAffinity, path.Child("addedAffinity"))
	case *configv1.NodeResourcesBalancedAllocationArgs:
		p.balanced(a.Resources, path.Child("resources"))
	case *configv1.NodeResourcesFitArgs:
		p.fit(a, path)
	case *configv1.PodTopologySpreadArgs:
		p.spread(a, path)
	case *configv1.VolumeBindingArgs:
		if s := *a.BindTimeoutSeconds; s < 0 {
			p.add(field.Invalid(path.Child("bindTimeoutSeconds"), s, "invalid BindTimeoutSeconds, should not be a negative value"))
		}
		p.shape(a.Shape, path.Child("shape"))
	}
}

func (p *problems) preemption(a *configv1.DefaultPreemptionArgs, path *field.Path) {
	percentage, absolute := *a.MinCandidateNodesPercentage, *a.MinCandidateNodesAbsolute
	percentagePath, absolutePath := path.Child("minCandidateNodesPercentage"), path.Child("minCandidateNodesAbsolute")
	if percentage < 0 || percentage > 100 {
		p.add(field.Invalid(percentagePath, percentage, "not in valid range [0, 100]"))
	}
	if absolute < 0 {
		p.add(field.Invalid(absolutePath, absolute, "not in valid range [0, inf)"))
	}
	if percentage == 0 && absolute == 0 {
		p.add(field.Invalid(percentagePath, percentage, "cannot be zero at the same time as minCandidateNodesAbsolute"))
		p.add(field.Invalid(absolutePath, absolute, "cannot be zero at the same time as minCandidateNodesPercentage"))
	}
}

func (p *problems) addedAffinity(added *corev1.NodeAffinity, path *field.Path) {
	if added == nil {
		return
	}
	if required := added.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		if _, err := nodeaffinity.NewNodeSelector(required, field.WithPath(path.Child("requiredDuringSchedulingIgnoredDuringExecution"))); err != nil {
			*p = append(*p, err)
		}
	}
	if preferred := added.PreferredDuringSchedulingIgnoredDuringExecution; len(preferred) > 0 {
		if _, err := nodeaffinity.NewPreferredSchedulingTerms(preferred, field.WithPath(path.Child("preferredDuringSchedulingIgnoredDuringExecution"))); err != nil {
			*p = append(*p, err)
		}
	}
}

func (p *problems) balanced(list []configv1.ResourceSpec, path *field.Path) {
	seen := make(map[string]bool)
	for i, r := range list {
		if seen[r.Name] {
			p.add(field.Duplicate(path.Index(i).Child("name"), r.Name))
		}
		seen[r.Name] = true
		if r.Weight != 1 {
			p.add(field.Invalid(path.Index(i).Child("weight"), r.Weight, "must be 1"))
		}
	}
}

func (p *problems) fit(a *configv1.NodeResourcesFitArgs, path *field.Path) {
	for i, name := range a.IgnoredResources {
		p.addAll(metav1validation.ValidateLabelName(name, path.Child("ignoredResources").Index(i)))
	}
	for i, group := range a.IgnoredResourceGroups {
		at := path.Child("ignoredResourceGroups").Index(i)
		if strings.Contains(group, "/") {
			p.add(field.Invalid(at, group, "resource group name can't contain '/'"))
		}
		p.addAll(metav1validation.ValidateLabelName(group, at))
	}
	s, at := a.ScoringStrategy, path.Child("scoringStrategy")
	types := sets.New(string(configv1.LeastAllocated), string(configv1.MostAllocated), string(configv1.RequestedToCapacityRatio))
	if !types.Has(string(s.Type)) {
		p.add(field.NotSupported(at.Child("type"), s.Type, sets.List(types)))
	}
	for i, r := range s.Resources {
		if r.Weight <= 0 || r.Weight > 100 {
			p.add(field.Invalid(at.Child("resources").Index(i).Child("weight"), r.Weight, fmt.Sprintf("resource weight of %v not in valid range (0, 100]", r.Name)))
		}
	}
	ratio := at.Child("requestedToCapacityRatio")
	switch {
	case s.Type != configv1.RequestedToCapacityRatio && s.RequestedToCapacityRatio != nil:
		p.add(field.Forbidden(ratio, "must be nil when type is not RequestedToCapacityRatio"))
	case s.Type == configv1.RequestedToCapacityRatio && s.RequestedToCapacityRatio == nil:
		p.add(field.Required(ratio, "must be specified when type is RequestedToCapacityRatio"))
	case s.Type == configv1.RequestedToCapacityRatio:
		p.shape(s.RequestedToCapacityRatio.Shape, ratio.Child("shape"))
	}
}

func (p *problems) shape(shape []configv1.UtilizationShapePoint, path *field.Path) {
	if len(shape) == 0 {
		p.add(field.Required(path, "at least one point must be specified"))
		return
	}
	for i := range shape[1:] {
		if shape[i].Utilization >= shape[i+1].Utilization {
			p.add(field.Invalid(path.Index(i+1).Child("utilization"), shape[i+1].Utilization, "values must be sorted in increasing order"))
			break
		}
	}
	for i, point := range shape {
		if point.Utilization < 0 || point.Utilization > 100 {
			p.add(field.Invalid(path.Index(i).Child("utilization"), point.Utilization, "not in valid range [0, 100]"))
		}
		if point.Score < 0 || point.Score > maxShapeScore {
			p.add(field.Invalid(path.Index(i).Child("score"), point.Score, "not in valid range [0, 10]"))
		}
	}
}

func (p *problems) spread(a *configv1.PodTopologySpreadArgs, path *field.Path) {
	kind := path.Child("defaultingType")
	switch {
	case a.DefaultingType != configv1.SystemDefaulting && a.DefaultingType != configv1.ListDefaulting:
		p.add(field.NotSupported(kind, a.DefaultingType, []string{string(configv1.SystemDefaulting), string(configv1.ListDefaulting)}))
	case a.DefaultingType == configv1.SystemDefaulting && len(a.DefaultConstraints) > 0:
		p.add(field.Invalid(kind, a.DefaultingType, "when .defaultConstraints are not empty"))
	}
	for i := range a.DefaultConstraints {
		p.constraint(a.DefaultConstraints, i, path.Child("defaultConstraints"))
	}
}

func (p *problems) constraint(list []corev1.TopologySpreadConstraint, i int, path *field.Path) {
	c, at := &list[i], path.Index(i)
	if c.MaxSkew <= 0 {
		p.add(field.Invalid(at.Child("maxSkew"), c.MaxSkew, "not in valid range (0, inf)"))
	}
	if key := at.Child("topologyKey"); c.TopologyKey == "" {
		p.add(field.Required(key, "can not be empty"))
	} else {
		p.addAll(metav1validation.ValidateLabelName(c.TopologyKey, key))
	}
	when := at.Child("whenUnsatisfiable")
	actions := sets.New(string(corev1.DoNotSchedule), string(corev1.ScheduleAnyway))
	switch {
	case c.WhenUnsatisfiable == "":
		p.add(field.Required(when, "can not be empty"))
	case !actions.Has(string(c.WhenUnsatisfiable)):
		p.add(field.NotSupported(when, c.WhenUnsatisfiable, sets.List(actions)))
	}
	if c.LabelSelector != nil {
		p.add(field.Forbidden(at.Child("labelSelector"), "constraint must not define a selector, as they deduced for each pod"))
	}
	for j := range list[:i] {
		if list[j].TopologyKey == c.TopologyKey && list[j].WhenUnsatisfiable == c.WhenUnsatisfiable {
			p.add(field.Duplicate(at, fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable)))
			return
		}
	}
}
