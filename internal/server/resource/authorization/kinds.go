// Package authorization describes the kinds of the group authorization.k8s.io. They are reviews: creating one returns
// the answer, and nothing is stored.
package authorization

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
)

// onlyCreate are the verbs that reviews do not support.
var onlyCreate = []string{"delete", "deletecollection", "get", "list", "patch", "update", "watch"}

func anyName(string, bool) []string { return nil }

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind {
	return []*resource.Kind{
		LocalSubjectAccessReviews(), SelfSubjectAccessReviews(), SelfSubjectRulesReviews(), SubjectAccessReviews(),
	}
}

// SubjectAccessReviews ask whether a user may do something.
func SubjectAccessReviews() *resource.Kind {
	return resource.Define(resource.Description[*authorizationv1.SubjectAccessReview]{
		Group: authorizationv1.GroupName, Version: "v1", Kind: "SubjectAccessReview", Resource: "subjectaccessreviews",
		NoVerbs: onlyCreate, NoGeneration: true, Name: anyName,
		Rules: resource.Rules[*authorizationv1.SubjectAccessReview]{
			Validate: func(_ context.Context, r *authorizationv1.SubjectAccessReview) field.ErrorList {
				return append(checkSubject(&r.Spec), checkEmpty(&r.ObjectMeta)...)
			},
		},
	})
}

// LocalSubjectAccessReviews ask whether a user may do something in one namespace.
func LocalSubjectAccessReviews() *resource.Kind {
	return resource.Define(resource.Description[*authorizationv1.LocalSubjectAccessReview]{
		Group: authorizationv1.GroupName, Version: "v1", Kind: "LocalSubjectAccessReview", Resource: "localsubjectaccessreviews",
		Namespaced: true, NoVerbs: onlyCreate, NoGeneration: true, Name: anyName,
		Rules: resource.Rules[*authorizationv1.LocalSubjectAccessReview]{
			Validate: func(_ context.Context, r *authorizationv1.LocalSubjectAccessReview) field.ErrorList {
				return checkLocal(r)
			},
		},
	})
}

// SelfSubjectAccessReviews ask whether the requesting user may do something.
func SelfSubjectAccessReviews() *resource.Kind {
	return resource.Define(resource.Description[*authorizationv1.SelfSubjectAccessReview]{
		Group: authorizationv1.GroupName, Version: "v1", Kind: "SelfSubjectAccessReview", Resource: "selfsubjectaccessreviews",
		NoVerbs: onlyCreate, NoGeneration: true, Name: anyName,
		Rules: resource.Rules[*authorizationv1.SelfSubjectAccessReview]{
			Validate: func(_ context.Context, r *authorizationv1.SelfSubjectAccessReview) field.ErrorList {
				return append(checkAttributes(r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes), checkEmpty(&r.ObjectMeta)...)
			},
		},
	})
}

// SelfSubjectRulesReviews ask what the requesting user may do in a namespace.
func SelfSubjectRulesReviews() *resource.Kind {
	return resource.Define(resource.Description[*authorizationv1.SelfSubjectRulesReview]{
		Group: authorizationv1.GroupName, Version: "v1", Kind: "SelfSubjectRulesReview", Resource: "selfsubjectrulesreviews",
		NoVerbs: onlyCreate, NoGeneration: true, Name: anyName,
	})
}
