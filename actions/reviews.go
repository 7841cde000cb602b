package actions

import (
	"context"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/apiserver"
	"github.com/millrace/millrace/auth"
)

// reviewSelf tells callers who they are.
func reviewSelf(_ context.Context, c *apiserver.ActionCall) (runtime.Object, int, error) {
	r := c.Body.(*authenticationv1.SelfSubjectReview)
	r.CreationTimestamp = metav1.Now()
	r.Status = authenticationv1.SelfSubjectReviewStatus{UserInfo: userInfo(c.User)}
	return r, http.StatusCreated, nil
}

func userInfo(u auth.User) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups}
	for k, v := range u.Extra {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[k] = v
	}
	return info
}

// tokenReview tells whose token it is.
type tokenReview struct{ tokens []auth.Tokens }

// Act implements apiserver.Action.
func (t tokenReview) Act(ctx context.Context, c *apiserver.ActionCall) (runtime.Object, int, error) {
	r := c.Body.(*authenticationv1.TokenReview)
	if r.Spec.Token == "" {
		return nil, 0, apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	r.Status = authenticationv1.TokenReviewStatus{}
	for _, tokens := range t.tokens {
		u, ok, err := tokens.Holder(ctx, r.Spec.Token)
		switch {
		case err != nil:
			r.Status.Error = err.Error()
		case ok:
			u.Groups = append(u.Groups, auth.Authenticated)
			r.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: userInfo(u), Audiences: r.Spec.Audiences}
			return r, http.StatusCreated, nil
		}
	}
	return r, http.StatusCreated, nil
}

// accessReview tells whether something may be done, by the caller or by somebody else.
type accessReview struct{ authorize auth.Authorizer }

// Act implements apiserver.Action.
func (a accessReview) Act(ctx context.Context, c *apiserver.ActionCall) (runtime.Object, int, error) {
	if err := checkReview(c.Body); err != nil {
		return nil, 0, err
	}
	switch r := c.Body.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		r.Status = a.decide(ctx, c.User, r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	case *authorizationv1.SubjectAccessReview:
		r.Status = a.decide(ctx, subject(r.Spec), r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	case *authorizationv1.LocalSubjectAccessReview:
		if r.Spec.ResourceAttributes != nil {
			r.Spec.ResourceAttributes.Namespace = c.Namespace
		}
		r.Status = a.decide(ctx, subject(r.Spec), r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	}
	return c.Body, http.StatusCreated, nil
}

// checkReview refuses questions that ask nothing, or about nobody.
func checkReview(o runtime.Object) error {
	var errs field.ErrorList
	switch r := o.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		errs = checkQuestion(r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	case *authorizationv1.SubjectAccessReview:
		errs = checkSubject(r.Spec)
	case *authorizationv1.LocalSubjectAccessReview:
		errs = checkSubject(r.Spec)
	}
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: authorizationv1.GroupName}, "", errs)
}

func checkSubject(s authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	errs := checkQuestion(s.ResourceAttributes, s.NonResourceAttributes)
	if s.User == "" && len(s.Groups) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "user"), s.User, "at least one of user or group must be specified"))
	}
	return errs
}

func checkQuestion(r *authorizationv1.ResourceAttributes, p *authorizationv1.NonResourceAttributes) field.ErrorList {
	spec := field.NewPath("spec")
	switch {
	case r != nil && p != nil:
		return field.ErrorList{field.Invalid(spec.Child("nonResourceAttributes"), p, "cannot be specified in combination with resourceAttributes")}
	case r == nil && p == nil:
		return field.ErrorList{field.Invalid(spec.Child("resourceAttributes"), p, "exactly one of nonResourceAttributes or resourceAttributes must be specified")}
	}
	return nil
}

func subject(s authorizationv1.SubjectAccessReviewSpec) auth.User {
	return auth.User{Name: s.User, UID: s.UID, Groups: s.Groups}
}

func (a accessReview) decide(ctx context.Context, u auth.User, r *authorizationv1.ResourceAttributes, p *authorizationv1.NonResourceAttributes) authorizationv1.SubjectAccessReviewStatus {
	ask := auth.Attributes{User: u}
	switch {
	case r != nil:
		ask.IsResource = true
		ask.Verb, ask.Group, ask.Version, ask.Resource = r.Verb, r.Group, r.Version, r.Resource
		ask.Subresource, ask.Namespace, ask.Name = r.Subresource, r.Namespace, r.Name
	case p != nil:
		ask.Verb, ask.Path = p.Verb, p.Path
	}
	return authorizationv1.SubjectAccessReviewStatus{Allowed: a.authorize.Authorize(ctx, ask) == nil}
}

// reviewRules lists what the caller may do: everything, for those who may, and to ask about oneself, for the others.
func reviewRules(_ context.Context, c *apiserver.ActionCall) (runtime.Object, int, error) {
	r := c.Body.(*authorizationv1.SelfSubjectRulesReview)
	r.Status.ResourceRules = []authorizationv1.ResourceRule{{Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io"},
		Resources: []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews"}}}
	r.Status.NonResourceRules = []authorizationv1.NonResourceRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz", "/livez", "/readyz", "/version"}}}
	if c.User.In(auth.Masters) {
		r.Status.ResourceRules = append(r.Status.ResourceRules, authorizationv1.ResourceRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}})
		r.Status.NonResourceRules = append(r.Status.NonResourceRules, authorizationv1.NonResourceRule{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}})
	}
	return r, http.StatusCreated, nil
}
