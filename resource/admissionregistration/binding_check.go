package admissionregistration

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/resource/check"
)

func checkValidatingBinding(b *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	path := field.NewPath("spec")
	errs := checkBound(b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources, path)
	at, actions := path.Child("validationActions"), b.Spec.ValidationActions
	if len(actions) == 0 {
		return append(errs, field.Required(at, ""))
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

func checkMutatingBinding(b *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
	return checkBound(b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources, field.NewPath("spec"))
}

func checkBound(policy string, ref *admissionv1.ParamRef, match *admissionv1.MatchResources, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if policy == "" {
		errs = append(errs, field.Required(path.Child("policyName"), ""))
	} else {
		errs = append(errs, check.Subdomain(policy, path.Child("policyName"))...)
	}
	if ref != nil {
		errs = append(errs, checkParamRef(ref, path.Child("paramRef"))...)
	}
	if match != nil {
		errs = append(errs, checkMatch(match, path.Child("matchResources"))...)
	}
	return errs
}

func checkParamRef(r *admissionv1.ParamRef, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case r.Name != "":
		errs = append(errs, check.Subdomain(r.Name, path.Child("name"))...)
		if r.Selector != nil {
			errs = append(errs, field.Forbidden(path.Child("name"), "name and selector are mutually exclusive"))
		}
	case r.Selector != nil:
		errs = append(errs, metav1validation.ValidateLabelSelector(r.Selector, metav1validation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
	default:
		errs = append(errs, field.Required(path, "one of name or selector must be specified"))
	}
	if at := path.Child("parameterNotFoundAction"); r.ParameterNotFoundAction == nil || *r.ParameterNotFoundAction == "" {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, check.OneOf(*r.ParameterNotFoundAction, at, admissionv1.AllowAction, admissionv1.DenyAction)...)
	}
	return errs
}
