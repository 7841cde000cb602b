// Package actions implements the subresources that clients POST to as calls: binding a pod, evicting a pod, requesting
// a token. It also answers reviews, which are never stored.
package actions

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/auth"
)

// Options are what the actions need besides the registry.
type Options struct {
	Authorize auth.Authorizer
	// Tokens are the authenticators that a TokenReview uses.
	Tokens auth.Tokens
	// Issue makes service account tokens; if nil, tokens cannot be requested.
	Issue *Issuer
}

// All returns the actions by the names under which they are registered.
func All(o Options) map[string]apiserver.Action {
	all := map[string]apiserver.Action{
		"pods/binding":  apiserver.ActionFunc(bind),
		"pods/eviction": apiserver.ActionFunc(evict),
		"selfsubjectreviews.authentication.k8s.io":       apiserver.ActionFunc(reviewSelf),
		"tokenreviews.authentication.k8s.io":             tokenReview{o.Tokens},
		"selfsubjectaccessreviews.authorization.k8s.io":  accessReview{o.Authorize},
		"subjectaccessreviews.authorization.k8s.io":      accessReview{o.Authorize},
		"localsubjectaccessreviews.authorization.k8s.io": accessReview{o.Authorize},
		"selfsubjectrulesreviews.authorization.k8s.io":   rulesReview{o.Authorize},
	}
	if o.Issue != nil {
		all["serviceaccounts/token"] = o.Issue
	}
	return all
}

// success is the response to an action that returns no object.
func success() (*metav1.Status, int, error) {
	return &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}, http.StatusCreated, nil
}
