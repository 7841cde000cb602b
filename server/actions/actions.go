// Package actions does what posting to a subresource means: binding a pod to a node, evicting it, asking for a token; and
// answers the reviews, which are asked and never stored.
package actions

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/server/apiserver"
	"github.com/millrace/millrace/server/auth"
)

// Options are what the actions need beyond the registry.
type Options struct {
	Authorize auth.Authorizer
	// Tokens are whose tokens a TokenReview knows.
	Tokens auth.Tokens
	// Issue makes service account tokens; nil offers none.
	Issue *Issuer
}

// All are the actions by the names under which they are registered.
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

// done is the answer to an action that has nothing to show.
func done() (*metav1.Status, int, error) {
	return &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}, http.StatusCreated, nil
}
