package apps

import (
	"context"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/podspec"
	"github.com/millrace/millrace/internal/server/resource/quote"
)

// templateGeneration counts the changes of a daemon set's template. It is deprecated, but still maintained.
const templateGeneration = appsv1.DeprecatedTemplateGeneration

var daemonSetRules = resource.Rules[*appsv1.DaemonSet]{
	PrepareCreate: func(_ context.Context, d *appsv1.DaemonSet) { countTemplates(d, 1) },
	PrepareUpdate: func(_ context.Context, d, old *appsv1.DaemonSet) {
		n, err := strconv.ParseInt(old.Annotations[templateGeneration], 10, 64)
		if err != nil {
			n = 0
		}
		if !equality.Semantic.DeepEqual(&d.Spec.Template, &old.Spec.Template) {
			n++
		}
		countTemplates(d, n)
	},
	Validate: checkDaemonSet,
	ValidateUpdate: func(ctx context.Context, d, old *appsv1.DaemonSet) field.ErrorList {
		return append(check.Immutable(d.Spec.Selector, old.Spec.Selector, selectorPath), checkDaemonSet(ctx, d)...)
	},
	Warnings: func(_ context.Context, d, old *appsv1.DaemonSet) []string {
		if old != nil && d.Generation == old.Generation {
			return nil
		}
		return podspec.TemplateWarnings(&d.Spec.Template, templatePath)
	},
}

func countTemplates(d *appsv1.DaemonSet, n int64) {
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[templateGeneration] = strconv.FormatInt(n, 10)
}

func checkDaemonSet(ctx context.Context, d *appsv1.DaemonSet) field.ErrorList {
	s := &d.Spec
	errs := metavalidation.ValidateLabelSelector(s.Selector, metavalidation.LabelSelectorValidationOptions{}, selectorPath)
	if selector, err := metav1.LabelSelectorAsSelector(s.Selector); err == nil {
		errs = append(errs, podspec.ValidateSelected(&s.Template, selector, templatePath)...)
	}
	if s.Selector != nil && len(s.Selector.MatchLabels)+len(s.Selector.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(selectorPath, s.Selector, "empty selector is invalid for daemonset"))
	}
	errs = append(errs, podspec.ValidateTemplate(&s.Template, templatePath, podspec.OptionsFrom(ctx))...)
	errs = append(errs, podspec.ValidateShared(&s.Template, templatePath)...)
	errs = append(errs, podspec.ValidateRunningTemplate(&s.Template, templatePath, "DaemonSet")...)
	errs = append(errs, nonNegative(specPath, number{"minReadySeconds", int64(s.MinReadySeconds)})...)
	errs = append(errs, checkDaemonStrategy(&s.UpdateStrategy)...)
	return append(errs, nonNegative(specPath, number{"revisionHistoryLimit", optional(s.RevisionHistoryLimit)})...)
}

func checkDaemonStrategy(s *appsv1.DaemonSetUpdateStrategy) field.ErrorList {
	path := func(names ...string) *field.Path { return specPath.Child("updateStrategy", names...) }
	switch s.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
		return nil
	case appsv1.RollingUpdateDaemonSetStrategyType:
		if s.RollingUpdate == nil {
			return field.ErrorList{field.Required(path("rollingUpdate"), "")}
		}
		return checkDaemonRolling(s.RollingUpdate, path)
	}
	return field.ErrorList{field.NotSupported(path(), quote.Of(s),
		[]appsv1.DaemonSetUpdateStrategyType{appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType})}
}

func checkDaemonRolling(r *appsv1.RollingUpdateDaemonSet, path func(...string) *field.Path) field.ErrorList {
	unavailable, surge := path("rollingUpdate", "maxUnavailable"), path("rollingUpdate", "maxSurge")
	var errs field.ErrorList
	if r.MaxUnavailable != nil {
		errs = append(errs, checkAmount(*r.MaxUnavailable, unavailable)...)
		errs = append(errs, notMoreThanAll(*r.MaxUnavailable, unavailable)...)
	}
	if r.MaxSurge != nil {
		errs = append(errs, checkAmount(*r.MaxSurge, surge)...)
		errs = append(errs, notMoreThanAll(*r.MaxSurge, surge)...)
	}
	switch {
	case !isZero(r.MaxUnavailable) && !isZero(r.MaxSurge):
		errs = append(errs, field.Invalid(surge, r.MaxSurge, "may not be set when maxUnavailable is non-zero"))
	case isZero(r.MaxUnavailable) && isZero(r.MaxSurge):
		errs = append(errs, field.Required(unavailable, "cannot be 0 when maxSurge is 0"))
	}
	return errs
}

var daemonSetStatusRules = resource.Rules[*appsv1.DaemonSet]{
	ValidateUpdate: func(_ context.Context, d, old *appsv1.DaemonSet) field.ErrorList {
		s := &d.Status
		errs := nonNegative(statusPath,
			number{"currentNumberScheduled", int64(s.CurrentNumberScheduled)}, number{"numberMisscheduled", int64(s.NumberMisscheduled)},
			number{"desiredNumberScheduled", int64(s.DesiredNumberScheduled)}, number{"numberReady", int64(s.NumberReady)},
			number{"observedGeneration", s.ObservedGeneration}, number{"updatedNumberScheduled", int64(s.UpdatedNumberScheduled)},
			number{"numberAvailable", int64(s.NumberAvailable)}, number{"numberUnavailable", int64(s.NumberUnavailable)},
			number{"collisionCount", optional(s.CollisionCount)})
		return append(errs, neverLess(s.CollisionCount, old.Status.CollisionCount, statusPath.Child("collisionCount"))...)
	},
}
