package apps

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/podspec"
	"github.com/millrace/millrace/internal/server/resource/quote"
)

var deploymentRules = resource.Rules[*appsv1.Deployment]{
	Validate: checkDeployment,
	ValidateUpdate: func(ctx context.Context, d, old *appsv1.Deployment) field.ErrorList {
		return append(checkDeployment(ctx, d), check.Immutable(d.Spec.Selector, old.Spec.Selector, selectorPath)...)
	},
	Warnings: func(_ context.Context, d, old *appsv1.Deployment) []string {
		return podspec.TemplateOwnerWarnings(d, old, &d.Spec.Template, templatePath)
	},
}

func checkDeployment(ctx context.Context, d *appsv1.Deployment) field.ErrorList {
	s := &d.Spec
	errs := nonNegative(specPath, number{"replicas", optional(s.Replicas)})
	errs = append(errs, checkReplicated(ctx, s.Selector, &s.Template, valueOf(s.Replicas))...)
	errs = append(errs, checkDeploymentStrategy(&s.Strategy, specPath)...)
	errs = append(errs, nonNegative(specPath,
		number{"minReadySeconds", int64(s.MinReadySeconds)}, number{"revisionHistoryLimit", optional(s.RevisionHistoryLimit)},
		number{"progressDeadlineSeconds", optional(s.ProgressDeadlineSeconds)})...)
	if p := s.ProgressDeadlineSeconds; p != nil && *p <= s.MinReadySeconds {
		errs = append(errs, field.Invalid(specPath.Child("progressDeadlineSeconds"), *p, "must be greater than minReadySeconds"))
	}
	return errs
}

func checkDeploymentStrategy(s *appsv1.DeploymentStrategy, spec *field.Path) field.ErrorList {
	path := func(names ...string) *field.Path { return spec.Child("strategy", names...) }
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Forbidden(path("rollingUpdate"), "may not be specified when strategy `type` is 'Recreate'")}
		}
		return nil
	case appsv1.RollingUpdateDeploymentStrategyType:
		if s.RollingUpdate == nil {
			return field.ErrorList{field.Required(path("rollingUpdate"), "this should be defaulted and never be nil")}
		}
		return checkRolling(s.RollingUpdate, path)
	}
	return field.ErrorList{field.NotSupported(path(), quote.Of(s),
		[]appsv1.DeploymentStrategyType{appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType})}
}

func checkRolling(r *appsv1.RollingUpdateDeployment, path func(...string) *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.MaxUnavailable != nil {
		errs = append(errs, checkAmount(*r.MaxUnavailable, path("rollingUpdate", "maxUnavailable"))...)
	}
	if r.MaxSurge != nil {
		errs = append(errs, checkAmount(*r.MaxSurge, path("rollingUpdate", "maxSurge"))...)
	}
	if isZero(r.MaxUnavailable) && isZero(r.MaxSurge) {
		errs = append(errs, field.Invalid(path("rollingUpdate", "maxUnavailable"), r.MaxUnavailable, "may not be 0 when `maxSurge` is 0"))
	}
	if r.MaxUnavailable != nil {
		errs = append(errs, notMoreThanAll(*r.MaxUnavailable, path("rollingUpdate", "maxUnavailable"))...)
	}
	return errs
}

var deploymentStatusRules = resource.Rules[*appsv1.Deployment]{
	PrepareUpdate: func(_ context.Context, d, old *appsv1.Deployment) { d.Labels = old.Labels },
	ValidateUpdate: func(_ context.Context, d, old *appsv1.Deployment) field.ErrorList {
		s := &d.Status
		errs := nonNegative(statusPath,
			number{"observedGeneration", s.ObservedGeneration}, number{"replicas", int64(s.Replicas)},
			number{"updatedReplicas", int64(s.UpdatedReplicas)}, number{"readyReplicas", int64(s.ReadyReplicas)},
			number{"availableReplicas", int64(s.AvailableReplicas)}, number{"unavailableReplicas", int64(s.UnavailableReplicas)},
			number{"terminatingReplicas", optional(s.TerminatingReplicas)}, number{"collisionCount", optional(s.CollisionCount)})
		errs = append(errs, notMoreThan(int64(s.Replicas), "cannot be greater than status.replicas",
			number{"updatedReplicas", int64(s.UpdatedReplicas)}, number{"readyReplicas", int64(s.ReadyReplicas)},
			number{"availableReplicas", int64(s.AvailableReplicas)})...)
		errs = append(errs, notMoreThan(int64(s.ReadyReplicas), "cannot be greater than readyReplicas",
			number{"availableReplicas", int64(s.AvailableReplicas)})...)
		return append(errs, neverLess(s.CollisionCount, old.Status.CollisionCount, statusPath.Child("collisionCount"))...)
	},
}
