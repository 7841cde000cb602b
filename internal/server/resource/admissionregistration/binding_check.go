package admissionregistration

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
)

func checkActions(actions []admissionv1.ValidationAction, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(actions) == 0 {
		return append(errs, field.Required(at, "at least one validation action is required"))
	}
	for i, a := range actions {
		errs = append(errs, check.OneOf(a, at.Index(i), admissionv1.Audit, admissionv1.Deny, admissionv1.Warn)...)
		if slices.Contains(actions[:i], a) {
			errs = append(errs, field.Duplicate(at.Index(i), a))
		}
	}
	if slices.Contains(actions, admissionv1.Deny) && slices.Contains(actions, admissionv1.Warn) {
		errs = append(errs, field.Invalid(at, actions, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"))
	}
	return errs
}

func checkBinding(b bound) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	if b.policy == "" {
		errs = append(errs, field.Required(path.Child("policyName"), ""))
	} else {
		errs = append(errs, check.Subdomain(b.policy, path.Child("policyName"))...)
	}
	if b.ref != nil {
		errs = append(errs, checkParamRef(b.ref, path.Child("paramRef"))...)
	}
	if b.match != nil {
		errs = append(errs, checkMatch(b.match, path.Child("matchResources"))...)
	}
	if b.acts {
		errs = append(errs, checkActions(b.actions, path.Child("validationActions"))...)
	}
	return errs
}

func checkParamRef(r *admissionv1.ParamRef, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case r.Name != "":
		if r.Selector != nil {
			const why = "name and selector are mutually exclusive"
			errs = append(errs, field.Forbidden(path.Child("name"), why), field.Forbidden(path.Child("selector"), why))
		} else {
			errs = append(errs, check.Invalid(path.Child("name"), r.Name, content.IsPathSegmentName(r.Name))...)
		}
	case r.Selector != nil:
		errs = append(errs, metav1validation.ValidateLabelSelector(r.Selector, metav1validation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
	default:
		errs = append(errs, field.Required(path, "one of name or selector must be specified"))
	}
	if at := path.Child("parameterNotFoundAction"); r.ParameterNotFoundAction == nil || *r.ParameterNotFoundAction == "" {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, check.OneOf(*r.ParameterNotFoundAction, at, admissionv1.DenyAction, admissionv1.AllowAction)...)
	}
	return errs
}
