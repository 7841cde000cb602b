package rbac

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

var roleColumns = []table.Column{table.Name(), table.CreatedAt()}

// Roles permit actions in a namespace.
func Roles() *resource.Kind {
	return resource.Define(resource.Description[*rbacv1.Role]{
		Group: rbacv1.GroupName, Version: "v1", Kind: "Role", Resource: "roles",
		Namespaced: true, UnconditionalUpdate: true, CreateOnUpdate: true,
		Name: segment,
		Rules: resource.Rules[*rbacv1.Role]{
			Validate:       func(_ context.Context, r *rbacv1.Role) field.ErrorList { return checkRules(r.Rules, true) },
			ValidateUpdate: func(_ context.Context, r, _ *rbacv1.Role) field.ErrorList { return checkRules(r.Rules, true) },
		},
		Columns: roleColumns,
		Row: func(r *rbacv1.Role) resource.Row {
			return resource.Row{Cells: []any{r.Name, table.Created(r.CreationTimestamp)}}
		},
	})
}

// ClusterRoles permit actions in the whole cluster, or serve as roles for many namespaces.
func ClusterRoles() *resource.Kind {
	return resource.Define(resource.Description[*rbacv1.ClusterRole]{
		Group: rbacv1.GroupName, Version: "v1", Kind: "ClusterRole", Resource: "clusterroles",
		UnconditionalUpdate: true, CreateOnUpdate: true,
		Name: segment,
		Rules: resource.Rules[*rbacv1.ClusterRole]{
			Validate:       func(_ context.Context, r *rbacv1.ClusterRole) field.ErrorList { return checkClusterRole(r, nil) },
			ValidateUpdate: func(_ context.Context, r, old *rbacv1.ClusterRole) field.ErrorList { return checkClusterRole(r, old) },
		},
		Columns: roleColumns,
		Row: func(r *rbacv1.ClusterRole) resource.Row {
			return resource.Row{Cells: []any{r.Name, table.Created(r.CreationTimestamp)}}
		},
	})
}

func checkRules(rules []rbacv1.PolicyRule, namespaced bool) field.ErrorList {
	var errs field.ErrorList
	for i := range rules {
		errs = append(errs, checkRule(&rules[i], namespaced, field.NewPath("rules").Index(i))...)
	}
	return errs
}

func checkRule(r *rbacv1.PolicyRule, namespaced bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(r.Verbs) == 0 {
		errs = append(errs, field.Required(path.Child("verbs"), "verbs must contain at least one value"))
	}
	if len(r.NonResourceURLs) > 0 {
		if namespaced {
			errs = append(errs, field.Invalid(path.Child("nonResourceURLs"), r.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs"))
		}
		if len(r.APIGroups)+len(r.Resources)+len(r.ResourceNames) > 0 {
			errs = append(errs, field.Invalid(path.Child("nonResourceURLs"), r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs"))
		}
		return errs
	}
	if len(r.APIGroups) == 0 {
		errs = append(errs, field.Required(path.Child("apiGroups"), "resource rules must supply at least one api group"))
	}
	if len(r.Resources) == 0 {
		errs = append(errs, field.Required(path.Child("resources"), "resource rules must supply at least one resource"))
	}
	return errs
}

func checkClusterRole(r, old *rbacv1.ClusterRole) field.ErrorList {
	errs := checkRules(r.Rules, false)
	if r.AggregationRule == nil {
		return errs
	}
	path := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(r.AggregationRule.ClusterRoleSelectors) == 0 {
		return append(errs, field.Required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
	}
	options := validation.LabelSelectorValidationOptions{
		AllowInvalidLabelValueInSelector: old != nil && old.AggregationRule != nil && hasBadValue(old.AggregationRule.ClusterRoleSelectors),
	}
	for i := range r.AggregationRule.ClusterRoleSelectors {
		selector := &r.AggregationRule.ClusterRoleSelectors[i]
		errs = append(errs, validation.ValidateLabelSelector(selector, options, path.Index(i))...)
		if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), nil, "invalid label selector."))
		}
	}
	return errs
}

// hasBadValue reports whether a stored object already violates a rule that was added later.
func hasBadValue(selectors []metav1.LabelSelector) bool {
	for i := range selectors {
		if validation.LabelSelectorHasInvalidLabelValue(&selectors[i]) {
			return true
		}
	}
	return false
}
