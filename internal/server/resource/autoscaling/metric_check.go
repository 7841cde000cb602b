package autoscaling

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
)

// checkMetric requires exactly one source of a metric: the one for its type.
func checkMetric(m *autoscalingv2.MetricSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m.Type == "" {
		errs = append(errs, field.Required(path.Child("type"), "must specify a metric source type"))
	}
	unknown := check.OneOf(m.Type, path.Child("type"),
		autoscalingv2.ContainerResourceMetricSourceType, autoscalingv2.ExternalMetricSourceType, autoscalingv2.ObjectMetricSourceType,
		autoscalingv2.PodsMetricSourceType, autoscalingv2.ResourceMetricSourceType)
	errs = append(errs, unknown...)
	sources := []struct {
		kind  autoscalingv2.MetricSourceType
		name  string
		set   bool
		check func(path *field.Path) field.ErrorList
	}{
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil, func(p *field.Path) field.ErrorList { return checkObject(m.Object, p) }},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil, func(p *field.Path) field.ErrorList { return checkExternal(m.External, p) }},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil, func(p *field.Path) field.ErrorList { return checkPods(m.Pods, p) }},
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil, func(p *field.Path) field.ErrorList { return checkResource(m.Resource, p) }},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil,
			func(p *field.Path) field.ErrorList { return checkContainerResource(m.ContainerResource, p) }},
	}
	n := 0
	for _, s := range sources {
		if s.set {
			if n++; n == 1 {
				errs = append(errs, s.check(path.Child(s.name))...)
			}
		}
	}
	errs = append(errs, unknown...) // an unknown type has no source either
	for _, s := range sources {
		if s.kind == m.Type && !s.set {
			errs = append(errs, field.Required(path.Child(s.name), "must populate information for the given metric source"))
		}
	}
	for _, s := range sources {
		if n > 1 && s.set && s.kind != m.Type {
			errs = append(errs, field.Forbidden(path.Child(s.name), "must populate the given metric source only"))
		}
	}
	return errs
}

func checkIdentifier(id *autoscalingv2.MetricIdentifier, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if id.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "must specify a metric name"))
	} else {
		errs = append(errs, check.Invalid(path.Child("name"), id.Name, content.IsPathSegmentName(id.Name))...)
	}
	return errs
}

func checkTarget(t *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Type == "" {
		errs = append(errs, field.Required(path.Child("type"), "must specify a metric target type"))
	}
	switch t.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	default:
		errs = append(errs, field.Invalid(path.Child("type"), t.Type, "must be either Utilization, Value, or AverageValue"))
	}
	if t.Value != nil && t.Value.Sign() != 1 {
		errs = append(errs, field.Invalid(path.Child("value"), t.Value, "must be positive"))
	}
	if t.AverageValue != nil && t.AverageValue.Sign() != 1 {
		errs = append(errs, field.Invalid(path.Child("averageValue"), t.AverageValue, "must be positive"))
	}
	if t.AverageUtilization != nil && *t.AverageUtilization < 1 {
		errs = append(errs, field.Invalid(path.Child("averageUtilization"), *t.AverageUtilization, "must be greater than 0"))
	}
	return errs
}

func checkObject(s *autoscalingv2.ObjectMetricSource, path *field.Path) field.ErrorList {
	errs := checkSegment(s.DescribedObject.Kind, path.Child("describedObject", "kind"))
	errs = append(errs, checkSegment(s.DescribedObject.Name, path.Child("describedObject", "name"))...)
	if _, err := schema.ParseGroupVersion(s.DescribedObject.APIVersion); err != nil {
		errs = append(errs, field.Invalid(path.Child("describedObject", "apiVersion"), s.DescribedObject.APIVersion, err.Error()))
	}
	errs = append(errs, checkIdentifier(&s.Metric, path.Child("metric"))...)
	errs = append(errs, checkTarget(&s.Target, path.Child("target"))...)
	if s.Target.Value == nil && s.Target.AverageValue == nil {
		errs = append(errs, field.Required(path.Child("target", "averageValue"), "must set either a target value or averageValue"))
	}
	return errs
}

func checkExternal(s *autoscalingv2.ExternalMetricSource, path *field.Path) field.ErrorList {
	errs := checkIdentifier(&s.Metric, path.Child("metric"))
	errs = append(errs, checkTarget(&s.Target, path.Child("target"))...)
	switch {
	case s.Target.Value == nil && s.Target.AverageValue == nil:
		errs = append(errs, field.Required(path.Child("target", "averageValue"), "must set either a target value for metric or a per-pod target"))
	case s.Target.Value != nil && s.Target.AverageValue != nil:
		errs = append(errs, field.Forbidden(path.Child("target", "value"), "may not set both a target value for metric and a per-pod target"))
	}
	return errs
}

func checkPods(s *autoscalingv2.PodsMetricSource, path *field.Path) field.ErrorList {
	errs := checkIdentifier(&s.Metric, path.Child("metric"))
	errs = append(errs, checkTarget(&s.Target, path.Child("target"))...)
	if s.Target.AverageValue == nil {
		errs = append(errs, field.Required(path.Child("target", "averageValue"), "must specify a positive target averageValue"))
	}
	return errs
}

func checkResource(s *autoscalingv2.ResourceMetricSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "must specify a resource name"))
	}
	errs = append(errs, checkTarget(&s.Target, path.Child("target"))...)
	return append(errs, checkUtilization(&s.Target, path.Child("target"))...)
}

func checkContainerResource(s *autoscalingv2.ContainerResourceMetricSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "must specify a resource name"))
	}
	if s.Container == "" {
		errs = append(errs, field.Required(path.Child("container"), "must specify a container"))
	}
	errs = append(errs, checkTarget(&s.Target, path.Child("target"))...)
	return append(errs, checkUtilization(&s.Target, path.Child("target"))...)
}

func checkUtilization(t *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case t.AverageUtilization == nil && t.AverageValue == nil:
		errs = append(errs, field.Required(path.Child("averageUtilization"), "must set either a target raw value or a target utilization"))
	case t.AverageUtilization != nil && t.AverageValue != nil:
		errs = append(errs, field.Forbidden(path.Child("averageValue"), "may not set both a target raw value and a target utilization"))
	}
	return errs
}
