package autoscaling

import (
	"context"
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/check"
)

// leastReplicas is the smallest minReplicas. Zero is allowed only with metrics that need no pods.
const leastReplicas = 1

var autoscalerRules = resource.Rules[*autoscalingv2.HorizontalPodAutoscaler]{
	Validate: checkAutoscaler,
	ValidateUpdate: func(ctx context.Context, a, _ *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
		return checkAutoscaler(ctx, a)
	},
}

var autoscalerStatusRules = resource.Rules[*autoscalingv2.HorizontalPodAutoscaler]{
	ValidateUpdate: func(_ context.Context, a, _ *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
		path := field.NewPath("status")
		errs := check.NonNegative(int64(a.Status.CurrentReplicas), path.Child("currentReplicas"))
		return append(errs, check.NonNegative(int64(a.Status.DesiredReplicas), path.Child("desiredReplicas"))...)
	},
}

func checkAutoscaler(_ context.Context, a *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	s, path := &a.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if n := s.MinReplicas; n != nil && *n < leastReplicas {
		errs = append(errs, field.Invalid(path.Child("minReplicas"), *n, fmt.Sprintf("must be greater than or equal to %d", leastReplicas)))
	}
	switch {
	case s.MaxReplicas == 0:
		errs = append(errs, field.Required(path.Child("maxReplicas"), "must be set and greater than 0"))
	case s.MaxReplicas < 1:
		errs = append(errs, field.Invalid(path.Child("maxReplicas"), s.MaxReplicas, "must be greater than or equal to 1"))
	}
	if n := s.MinReplicas; n != nil && s.MaxReplicas < *n {
		errs = append(errs, field.Invalid(path.Child("maxReplicas"), s.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	errs = append(errs, checkReference(s.ScaleTargetRef, path.Child("scaleTargetRef"))...)
	for i := range s.Metrics {
		errs = append(errs, checkMetric(&s.Metrics[i], path.Child("metrics").Index(i))...)
	}
	if n := s.MinReplicas; n != nil && *n == 0 && !slices.ContainsFunc(s.Metrics, needsNoPods) {
		errs = append(errs, field.Forbidden(path.Child("metrics"), "must specify at least one Object or External metric to support scaling to zero replicas"))
	}
	if b := s.Behavior; b != nil {
		errs = append(errs, checkScaling(b.ScaleUp, path.Child("behavior", "scaleUp"))...)
		errs = append(errs, checkScaling(b.ScaleDown, path.Child("behavior", "scaleDown"))...)
	}
	return errs
}

// needsNoPods reports whether a metric exists even without pods.
func needsNoPods(m autoscalingv2.MetricSpec) bool {
	return m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
}

func checkReference(r autoscalingv2.CrossVersionObjectReference, path *field.Path) field.ErrorList {
	errs := checkSegment(r.Kind, path.Child("kind"))
	errs = append(errs, checkSegment(r.Name, path.Child("name"))...)
	version := path.Child("apiVersion")
	switch gv, err := schema.ParseGroupVersion(r.APIVersion); {
	case err != nil:
		errs = append(errs, field.Invalid(version, r.APIVersion, err.Error()))
	case gv.Group == "" && r.APIVersion != "v1":
		errs = append(errs, field.Invalid(version, r.APIVersion, "apiVersion must specify API group"))
	}
	return errs
}

func checkSegment(text string, path *field.Path) field.ErrorList {
	if text == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return check.Invalid(path, text, content.IsPathSegmentName(text))
}

// Limits of a behavior, in seconds.
const (
	longestWindow = 3600
	longestPeriod = 1800
)

func checkScaling(r *autoscalingv2.HPAScalingRules, path *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	var errs field.ErrorList
	if w := r.StabilizationWindowSeconds; w != nil {
		at := path.Child("stabilizationWindowSeconds")
		if *w < 0 {
			errs = append(errs, field.Invalid(at, *w, "must be greater than or equal to zero"))
		}
		if *w > longestWindow {
			errs = append(errs, field.Invalid(at, *w, fmt.Sprintf("must be less than or equal to %v", longestWindow)))
		}
	}
	if p := r.SelectPolicy; p != nil {
		errs = append(errs, check.OneOf(*p, path.Child("selectPolicy"),
			autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect)...)
	}
	policies := path.Child("policies")
	if len(r.Policies) == 0 {
		errs = append(errs, field.Required(policies, "must specify at least one Policy"))
	}
	for i, p := range r.Policies {
		errs = append(errs, checkPolicy(p, policies.Index(i))...)
	}
	if t := r.Tolerance; t != nil && t.Sign() < 0 {
		errs = append(errs, field.Invalid(path.Child("tolerance"), t.String(), "must be greater than or equal to 0"))
	}
	return errs
}

func checkPolicy(p autoscalingv2.HPAScalingPolicy, path *field.Path) field.ErrorList {
	errs := check.OneOf(p.Type, path.Child("type"), autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy)
	if p.Value <= 0 {
		errs = append(errs, field.Invalid(path.Child("value"), p.Value, "must be greater than zero"))
	}
	if p.PeriodSeconds <= 0 {
		errs = append(errs, field.Invalid(path.Child("periodSeconds"), p.PeriodSeconds, "must be greater than zero"))
	}
	if p.PeriodSeconds > longestPeriod {
		errs = append(errs, field.Invalid(path.Child("periodSeconds"), p.PeriodSeconds, fmt.Sprintf("must be less than or equal to %v", longestPeriod)))
	}
	return errs
}
