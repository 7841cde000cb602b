// Package authentication describes the kinds of the group authentication.k8s.io. They are reviews: creating one returns
// the answer, and nothing is stored.
package authentication

import (
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/millrace/millrace/internal/server/resource"
)

// onlyCreate are the verbs that reviews do not support.
var onlyCreate = []string{"delete", "deletecollection", "get", "list", "patch", "update", "watch"}

func anyName(string, bool) []string { return nil }

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind { return []*resource.Kind{SelfSubjectReviews(), TokenReviews()} }

// TokenReviews ask to which user a token belongs.
func TokenReviews() *resource.Kind {
	return resource.Define(resource.Description[*authenticationv1.TokenReview]{
		Group: authenticationv1.GroupName, Version: "v1", Kind: "TokenReview", Resource: "tokenreviews",
		NoVerbs: onlyCreate, NoGeneration: true, Name: anyName,
	})
}

// SelfSubjectReviews ask who the requesting user is.
func SelfSubjectReviews() *resource.Kind {
	return resource.Define(resource.Description[*authenticationv1.SelfSubjectReview]{
		Group: authenticationv1.GroupName, Version: "v1", Kind: "SelfSubjectReview", Resource: "selfsubjectreviews",
		NoVerbs: onlyCreate, NoGeneration: true, Name: anyName,
	})
}
