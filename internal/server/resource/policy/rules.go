package policy

import (
	"context"
	"strconv"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/quote"
)

var budgetRules = resource.Rules[*policyv1.PodDisruptionBudget]{
	Validate: checkBudget,
	ValidateUpdate: func(ctx context.Context, b, _ *policyv1.PodDisruptionBudget) field.ErrorList {
		return checkBudget(ctx, b)
	},
}

func checkBudget(_ context.Context, b *policyv1.PodDisruptionBudget) field.ErrorList {
	s, path := &b.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if s.MinAvailable != nil && s.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(path, quote.Of(s), "minAvailable and maxUnavailable cannot be both set"))
	}
	if s.MinAvailable != nil {
		errs = append(errs, checkAmount(*s.MinAvailable, path.Child("minAvailable"))...)
	}
	if s.MaxUnavailable != nil {
		errs = append(errs, checkAmount(*s.MaxUnavailable, path.Child("maxUnavailable"))...)
	}
	errs = append(errs, metavalidation.ValidateLabelSelector(s.Selector, metavalidation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
	if p := s.UnhealthyPodEvictionPolicy; p != nil {
		errs = append(errs, check.OneOf(*p, path.Child("unhealthyPodEvictionPolicy"), policyv1.AlwaysAllow, policyv1.IfHealthyBudget)...)
	}
	return errs
}

// checkAmount requires a number of pods, or a percentage of at most 100.
func checkAmount(n intstr.IntOrString, path *field.Path) field.ErrorList {
	if n.Type == intstr.Int {
		return check.NonNegative(int64(n.IntVal), path)
	}
	if messages := validation.IsValidPercent(n.StrVal); messages != nil {
		return check.Invalid(path, n, messages)
	}
	if percent, err := strconv.Atoi(strings.TrimSuffix(n.StrVal, "%")); err == nil && percent > 100 {
		return field.ErrorList{field.Invalid(path, n, "must not be greater than 100%")}
	}
	return nil
}

var budgetStatusRules = resource.Rules[*policyv1.PodDisruptionBudget]{
	ValidateUpdate: func(_ context.Context, b, _ *policyv1.PodDisruptionBudget) field.ErrorList {
		s, path := &b.Status, field.NewPath("status")
		errs := metavalidation.ValidateConditions(s.Conditions, path.Child("conditions"))
		for _, n := range []struct {
			name  string
			value int32
		}{
			{"disruptionsAllowed", s.DisruptionsAllowed}, {"currentHealthy", s.CurrentHealthy},
			{"desiredHealthy", s.DesiredHealthy}, {"expectedPods", s.ExpectedPods},
		} {
			errs = append(errs, check.NonNegative(int64(n.value), path.Child(n.name))...)
		}
		return errs
	},
}
