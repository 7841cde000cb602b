package authorization

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/quote"
)

// checkEmpty refuses metadata: a review must not have any.
func checkEmpty(meta *metav1.ObjectMeta) field.ErrorList {
	return checkEmptyBut(meta, *meta, "must be empty")
}

// checkEmptyBut reports the whole metadata if it contains more than is allowed.
func checkEmptyBut(whole *metav1.ObjectMeta, m metav1.ObjectMeta, words string) field.ErrorList {
	m.ManagedFields = nil
	// The registry, not the client, has set these.
	m.UID, m.CreationTimestamp = "", metav1.Time{}
	if equality.Semantic.DeepEqual(m, metav1.ObjectMeta{}) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), whole, words)}
}

func checkSubject(s *authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	errs := checkAttributes(s.ResourceAttributes, s.NonResourceAttributes)
	if s.User == "" && len(s.Groups) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec.user"), s.User, "at least one of user or group must be specified"))
	}
	return errs
}

func checkAttributes(r *authorizationv1.ResourceAttributes, other *authorizationv1.NonResourceAttributes) field.ErrorList {
	switch {
	case r != nil && other != nil:
		return field.ErrorList{field.Invalid(field.NewPath("spec.nonResourceAttributes"), quote.Of(other), "cannot be specified in combination with resourceAttributes")}
	case r == nil && other == nil:
		return field.ErrorList{field.Invalid(field.NewPath("spec.resourceAttributes"), r, "exactly one of nonResourceAttributes or resourceAttributes must be specified")}
	case r != nil:
		return checkSelectors(r)
	}
	return nil
}

func checkLocal(r *authorizationv1.LocalSubjectAccessReview) field.ErrorList {
	errs := checkSubject(&r.Spec)
	meta := r.ObjectMeta
	meta.Namespace = ""
	errs = append(errs, checkEmptyBut(&r.ObjectMeta, meta, "must be empty except for namespace")...)
	if a := r.Spec.ResourceAttributes; a != nil && a.Namespace != r.Namespace {
		errs = append(errs, field.Invalid(field.NewPath("spec.resourceAttributes.namespace"), a.Namespace, "must match metadata.namespace"))
	}
	if r.Spec.NonResourceAttributes != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec.nonResourceAttributes"), quote.Of(r.Spec.NonResourceAttributes), "disallowed on this kind of request"))
	}
	return errs
}

// checkSelectors requires a selector either as text or as requirements, not both.
func checkSelectors(r *authorizationv1.ResourceAttributes) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec.resourceAttributes")
	both := func(name, raw string, parts int) bool {
		if raw == "" || parts == 0 {
			if raw == "" && parts == 0 {
				errs = append(errs, field.Required(path.Child(name).Child("requirements"),
					"when "+path.Child(name).String()+" is specified, requirements or rawSelector is required"))
			}
			return false
		}
		errs = append(errs, field.Invalid(path.Child(name).Child("rawSelector"), raw, "may not specified at the same time as requirements"))
		return true
	}
	if f := r.FieldSelector; f != nil && !both("fieldSelector", f.RawSelector, len(f.Requirements)) {
		for i := range f.Requirements {
			errs = append(errs, validation.ValidateFieldSelectorRequirement(f.Requirements[i], validation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true},
				path.Child("fieldSelector", "requirements").Index(i))...)
		}
	}
	if l := r.LabelSelector; l != nil && !both("labelSelector", l.RawSelector, len(l.Requirements)) {
		for i := range l.Requirements {
			errs = append(errs, validation.ValidateLabelSelectorRequirement(l.Requirements[i], validation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true},
				path.Child("labelSelector", "requirements").Index(i))...)
		}
	}
	return errs
}
