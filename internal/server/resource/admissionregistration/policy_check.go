package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
)

func checkValidating(p *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	s, path := &p.Spec, field.NewPath("spec")
	errs := checkCommon(s.FailurePolicy, s.ParamKind, s.MatchConstraints, s.MatchConditions, s.Variables, path)
	if len(s.Validations)+len(s.AuditAnnotations) == 0 {
		const why = "validations or auditAnnotations must contain at least one item"
		errs = append(errs, field.Required(path.Child("validations"), why), field.Required(path.Child("auditAnnotations"), why))
	}
	for i := range s.Validations {
		errs = append(errs, checkValidation(&s.Validations[i], path.Child("validations").Index(i))...)
	}
	for i, a := range s.AuditAnnotations {
		at := path.Child("auditAnnotations").Index(i)
		errs = append(errs, check.Qualified(p.Name+"/"+a.Key, at.Child("key"))...)
		if strings.TrimSpace(a.ValueExpression) == "" {
			errs = append(errs, field.Required(at.Child("valueExpression"), "valueExpression is not specified"))
		} else if len(a.ValueExpression) > longestValueExpression {
			errs = append(errs, field.Required(at.Child("valueExpression"), fmt.Sprintf("must not exceed %d bytes in length", longestValueExpression)))
		}
		if slices.ContainsFunc(s.AuditAnnotations[:i], func(b admissionv1.AuditAnnotation) bool { return b.Key == a.Key }) {
			errs = append(errs, field.Duplicate(at.Child("key"), a.Key))
		}
	}
	return errs
}

// longestValueExpression is how long the expression of an annotation may be, in bytes.
const longestValueExpression = 5 << 10

func checkCommon(failure *admissionv1.FailurePolicyType, param *admissionv1.ParamKind, match *admissionv1.MatchResources,
	conditions []admissionv1.MatchCondition, variables []admissionv1.Variable, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if failure == nil {
		errs = append(errs, field.Required(path.Child("failurePolicy"), ""))
	} else {
		errs = append(errs, check.OneOf(*failure, path.Child("failurePolicy"), admissionv1.Fail, admissionv1.Ignore)...)
	}
	if param != nil {
		errs = append(errs, checkParamKind(param, path.Child("paramKind"))...)
	}
	if at := path.Child("matchConstraints"); match == nil {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, checkMatch(match, at)...)
		if len(match.ResourceRules) == 0 {
			errs = append(errs, field.Required(at.Child("resourceRules"), ""))
		}
	}
	errs = append(errs, checkConditions(conditions, path.Child("matchConditions"))...)
	for i, v := range variables {
		at := path.Child("variables").Index(i)
		switch {
		case v.Name == "":
			errs = append(errs, field.Required(at.Child("name"), "name is not specified"))
		case !identifier(v.Name):
			errs = append(errs, field.Invalid(at.Child("name"), v.Name, "must be a valid CEL identifier"))
		}
		if strings.TrimSpace(v.Expression) == "" {
			errs = append(errs, field.Required(at.Child("expression"), "expression is not specified"))
		}
	}
	return errs
}

// identifier reports whether a name is a valid CEL identifier.
func identifier(name string) bool {
	for i, c := range name {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

func checkParamKind(k *admissionv1.ParamKind, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if at := path.Child("apiVersion"); k.APIVersion == "" {
		errs = append(errs, field.Required(at, ""))
	} else if gv, err := schema.ParseGroupVersion(k.APIVersion); err != nil {
		errs = append(errs, field.Invalid(at, k.APIVersion, err.Error()))
	} else {
		if gv.Group != "" {
			errs = append(errs, check.Invalid(at, gv.Group, validation.IsDNS1123Subdomain(gv.Group))...)
		}
		errs = append(errs, check.Invalid(at, gv.Version, validation.IsDNS1035Label(gv.Version))...)
	}
	if at := path.Child("kind"); k.Kind == "" {
		errs = append(errs, field.Required(at, ""))
	} else if bad := validation.IsDNS1035Label(strings.ToLower(k.Kind)); len(bad) > 0 {
		errs = append(errs, field.Invalid(at, k.Kind, "may have mixed case, but should otherwise match: "+strings.Join(bad, ",")))
	}
	return errs
}

func checkMatch(m *admissionv1.MatchResources, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m.MatchPolicy == nil {
		errs = append(errs, field.Required(path.Child("matchPolicy"), ""))
	} else {
		errs = append(errs, check.OneOf(*m.MatchPolicy, path.Child("matchPolicy"), admissionv1.Equivalent, admissionv1.Exact)...)
	}
	for _, s := range []struct {
		name     string
		selector *metav1.LabelSelector
	}{{"namespaceSelector", m.NamespaceSelector}, {"objectSelector", m.ObjectSelector}} {
		if s.selector == nil {
			errs = append(errs, field.Required(path.Child(s.name), ""))
		} else {
			errs = append(errs, metav1validation.ValidateLabelSelector(s.selector, metav1validation.LabelSelectorValidationOptions{}, path.Child(s.name))...)
		}
	}
	for _, list := range []struct {
		name  string
		rules []admissionv1.NamedRuleWithOperations
	}{{"resourceRules", m.ResourceRules}, {"excludeResourceRules", m.ExcludeResourceRules}} {
		for i := range list.rules {
			r, at := &list.rules[i], path.Child(list.name).Index(i)
			for j, name := range r.ResourceNames {
				errs = append(errs, check.Invalid(at.Child("resourceNames").Index(j), name, content.IsPathSegmentName(name))...)
				if slices.Contains(r.ResourceNames[:j], name) {
					errs = append(errs, field.Duplicate(at.Child("resourceNames").Index(j), name))
				}
			}
			errs = append(errs, checkOperations(&r.RuleWithOperations, at)...)
		}
	}
	return errs
}

var refusals = []metav1.StatusReason{
	metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge,
}

func checkValidation(v *admissionv1.Validation, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	message := strings.TrimSpace(v.Message)
	if strings.TrimSpace(v.Expression) == "" {
		errs = append(errs, field.Required(path.Child("expression"), "expression is not specified"))
	}
	if v.MessageExpression != "" && strings.TrimSpace(v.MessageExpression) == "" {
		errs = append(errs, field.Invalid(path.Child("messageExpression"), v.MessageExpression, "must be non-empty if specified"))
	}
	switch {
	case v.Message != "" && message == "":
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "must be non-empty if specified"))
	case strings.ContainsAny(message, "\r\n"):
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "must not contain line breaks"))
	}
	if v.Reason != nil {
		errs = append(errs, check.OneOf(*v.Reason, path.Child("reason"), refusals...)...)
	}
	return errs
}

func checkMutating(p *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
	s, path := &p.Spec, field.NewPath("spec")
	errs := checkCommon(s.FailurePolicy, s.ParamKind, s.MatchConstraints, s.MatchConditions, s.Variables, path)
	if len(s.Mutations) == 0 {
		errs = append(errs, field.Required(path.Child("mutations"), "mutations must contain at least one item"))
	}
	for i := range s.Mutations {
		errs = append(errs, checkMutation(&s.Mutations[i], path.Child("mutations").Index(i))...)
	}
	if at := path.Child("reinvocationPolicy"); s.ReinvocationPolicy == "" {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, check.OneOf(s.ReinvocationPolicy, at, admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy)...)
	}
	return errs
}

func checkMutation(m *admissionv1.Mutation, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	form := func(name string, wanted, there bool, expression string) {
		switch at := path.Child(name); {
		case wanted && !there:
			errs = append(errs, field.Required(at, "must be specified when patchType is "+string(m.PatchType)))
		case !wanted && there:
			errs = append(errs, field.Invalid(at, "{"+name+"}", "must not be specified when patchType is "+string(m.PatchType)))
		case wanted && strings.TrimSpace(expression) == "":
			errs = append(errs, field.Required(at.Child("expression"), ""))
		}
	}
	apply, patch := "", ""
	if m.ApplyConfiguration != nil {
		apply = m.ApplyConfiguration.Expression
	}
	if m.JSONPatch != nil {
		patch = m.JSONPatch.Expression
	}
	switch m.PatchType {
	case "":
		errs = append(errs, field.Required(path.Child("patchType"), ""))
	case admissionv1.PatchTypeApplyConfiguration, admissionv1.PatchTypeJSONPatch:
		form("applyConfiguration", m.PatchType == admissionv1.PatchTypeApplyConfiguration, m.ApplyConfiguration != nil, apply)
		form("jsonPatch", m.PatchType == admissionv1.PatchTypeJSONPatch, m.JSONPatch != nil, patch)
	default:
		errs = append(errs, field.NotSupported(path.Child("patchType"), m.PatchType,
			[]admissionv1.PatchType{admissionv1.PatchTypeApplyConfiguration, admissionv1.PatchTypeJSONPatch}))
	}
	return errs
}

func checkPolicyStatus(p *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	return metav1validation.ValidateConditions(p.Status.Conditions, field.NewPath("status", "conditions"))
}
