package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
)

var operations = []admissionv1.OperationType{
	admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Delete, admissionv1.Update,
}

func checkOperations(r *admissionv1.RuleWithOperations, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("operations")
	if len(r.Operations) == 0 {
		errs = append(errs, field.Required(at, ""))
	}
	if len(r.Operations) > 1 && slices.Contains(r.Operations, admissionv1.OperationAll) {
		errs = append(errs, field.Invalid(at, r.Operations, "if '*' is present, must not specify other operations"))
	}
	for i, o := range r.Operations {
		errs = append(errs, check.OneOf(o, at.Index(i), operations...)...)
	}
	return append(errs, checkRule(&r.Rule, path)...)
}

func checkRule(r *admissionv1.Rule, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	starAlone := func(name string, values []string, what string) {
		if len(values) == 0 {
			errs = append(errs, field.Required(path.Child(name), ""))
		}
		if len(values) > 1 && slices.Contains(values, "*") {
			errs = append(errs, field.Invalid(path.Child(name), values, "if '*' is present, must not specify other "+what))
		}
	}
	starAlone("apiGroups", r.APIGroups, "API groups")
	starAlone("apiVersions", r.APIVersions, "API versions")
	for i, v := range r.APIVersions {
		if v == "" {
			errs = append(errs, field.Required(path.Child("apiVersions").Index(i), ""))
		}
	}
	errs = append(errs, checkResources(r.Resources, path.Child("resources"))...)
	if r.Scope != nil {
		errs = append(errs, check.OneOf(*r.Scope, path.Child("scope"), admissionv1.AllScopes, admissionv1.ClusterScope, admissionv1.NamespacedScope)...)
	}
	return errs
}

// checkResources refuses resources that a wildcard in the list already includes.
func checkResources(all []string, path *field.Path) field.ErrorList {
	if len(all) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	everySub, everyResource := map[string]bool{}, map[string]bool{}
	plain := false
	for i, text := range all {
		resource, sub, slash := strings.Cut(text, "/")
		switch {
		case text == "":
			errs = append(errs, field.Required(path.Index(i), ""))
			continue
		case !slash:
			plain = plain || text != "*"
			continue
		case everySub[resource]:
			errs = append(errs, field.Invalid(path.Index(i), text, fmt.Sprintf("if '%s/*' is present, must not specify %s", resource, text)))
		case everyResource[sub]:
			errs = append(errs, field.Invalid(path.Index(i), text, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, text)))
		}
		everySub[resource] = everySub[resource] || sub == "*"
		everyResource[sub] = everyResource[sub] || resource == "*"
	}
	if len(all) > 1 && slices.Contains(all, "*/*") {
		errs = append(errs, field.Invalid(path, all, "if '*/*' is present, must not specify other resources"))
	}
	if plain && slices.Contains(all, "*") {
		errs = append(errs, field.Invalid(path, all, "if '*' is present, must not specify other resources without subresources"))
	}
	return errs
}
