package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/quote"
)

func checkQuota(q *corev1.ResourceQuota) field.ErrorList {
	path := field.NewPath("spec")
	errs := checkAmounts(q.Spec.Hard, path.Child("hard"))
	errs = append(errs, checkScopes(&q.Spec, path.Child("scopes"))...)
	return append(errs, checkScopeSelector(&q.Spec, path.Child("scopeSelector"))...)
}

func checkQuotaUpdate(q, old *corev1.ResourceQuota) field.ErrorList {
	errs := checkQuota(q)
	if !sameScopes(q.Spec.Scopes, old.Spec.Scopes) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "scopes"), q.Spec.Scopes, validation.FieldImmutableErrorMsg))
	}
	return errs
}

func sameScopes(a, b []corev1.ResourceQuotaScope) bool {
	for _, s := range a {
		if !slices.Contains(b, s) {
			return false
		}
	}
	for _, s := range b {
		if !slices.Contains(a, s) {
			return false
		}
	}
	return true
}

func checkQuotaStatus(q *corev1.ResourceQuota) field.ErrorList {
	var errs field.ErrorList
	if q.ResourceVersion == "" {
		errs = append(errs, field.Required(field.NewPath("resourceVersion"), ""))
	}
	errs = append(errs, checkAmounts(q.Status.Hard, field.NewPath("status", "hard"))...)
	return append(errs, checkAmounts(q.Status.Used, field.NewPath("status", "used"))...)
}

func checkAmounts(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedNames(list) {
		at := path.Key(string(name))
		errs = append(errs, check.QuotaResourceName(string(name), at)...)
		errs = append(errs, check.Quantity(string(name), list[name], at)...)
	}
	return errs
}

var quotaScopes = []corev1.ResourceQuotaScope{
	corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort,
	corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity,
	corev1.ResourceQuotaScopeVolumeAttributesClass,
}

var (
	claimResources   = []string{"persistentvolumeclaims", "requests.storage"}
	computeResources = []string{"pods", "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}
)

// counts reports whether a resource can be used with a scope.
func counts(scope corev1.ResourceQuotaScope, name corev1.ResourceName) bool {
	n := string(name)
	switch scope {
	case corev1.ResourceQuotaScopeBestEffort:
		return n == "pods"
	case corev1.ResourceQuotaScopeVolumeAttributesClass:
		return slices.Contains(claimResources, n)
	}
	return slices.Contains(computeResources, n)
}

func allCount(scope corev1.ResourceQuotaScope, hard corev1.ResourceList) bool {
	for name := range hard {
		if check.IsQuotaResource(string(name)) && !counts(scope, name) {
			return false
		}
	}
	return true
}

// conflicts counts pairs of scopes that exclude each other.
func conflicts(scopes []corev1.ResourceQuotaScope) int {
	n := 0
	for _, pair := range [...][2]corev1.ResourceQuotaScope{
		{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
		{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	} {
		if slices.Contains(scopes, pair[0]) && slices.Contains(scopes, pair[1]) {
			n++
		}
	}
	return n
}

func checkScopes(s *corev1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, scope := range s.Scopes {
		if !slices.Contains(quotaScopes, scope) {
			errs = append(errs, field.Invalid(path, s.Scopes, "unsupported scope"))
		}
		if !allCount(scope, s.Hard) {
			errs = append(errs, field.Invalid(path, s.Scopes, "unsupported scope applied to resource"))
		}
	}
	for range conflicts(s.Scopes) {
		errs = append(errs, field.Invalid(path, s.Scopes, "conflicting scopes"))
	}
	return errs
}

const existsOnly = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, " +
	"ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"

func checkScopeSelector(s *corev1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	if s.ScopeSelector == nil {
		return nil
	}
	var errs field.ErrorList
	var scopes []corev1.ResourceQuotaScope
	path = path.Child("matchExpressions")
	for _, r := range s.ScopeSelector.MatchExpressions {
		if !slices.Contains(quotaScopes, r.ScopeName) {
			errs = append(errs, field.Invalid(path.Child("scopeName"), r.ScopeName, "unsupported scope"))
		}
		if !allCount(r.ScopeName, s.Hard) {
			errs = append(errs, field.Invalid(path, quote.Of(s.ScopeSelector), "unsupported scope applied to resource"))
		}
		named := r.ScopeName == corev1.ResourceQuotaScopePriorityClass || r.ScopeName == corev1.ResourceQuotaScopeVolumeAttributesClass
		if !named && slices.Contains(quotaScopes, r.ScopeName) && r.Operator != corev1.ScopeSelectorOpExists {
			errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, existsOnly))
		}
		switch r.Operator {
		case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
			if len(r.Values) == 0 {
				errs = append(errs, field.Required(path.Child("values"), "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"))
			}
		case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
			if len(r.Values) != 0 {
				errs = append(errs, field.Invalid(path.Child("values"), r.Values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"))
			}
		default:
			errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
		}
		scopes = append(scopes, r.ScopeName)
	}
	for range conflicts(scopes) {
		errs = append(errs, field.Invalid(path, s.Scopes, "conflicting scopes"))
	}
	return errs
}
