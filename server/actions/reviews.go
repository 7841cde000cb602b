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

	"github.com/millrace/millrace/server/apiserver"
	"github.com/millrace/millrace/server/auth"
	"github.com/millrace/millrace/server/resource"
)

// reviewSelf tells callers who they are.
func reviewSelf(_ context.Context, c *apiserver.ActionCall) (runtime.Object, int, error) {
	r := &authenticationv1.SelfSubjectReview{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Now()}}
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
	if err := question(ctx, c); err != nil {
		return nil, 0, err
	}
	r.Status = authenticationv1.TokenReviewStatus{Error: "invalid bearer token"}
	for _, tokens := range t.tokens {
		if u, ok, err := tokens.Holder(ctx, r.Spec.Token); ok && err == nil {
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
	if err := question(ctx, c); err != nil {
		return nil, 0, err
	}
	switch r := c.Body.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		r.Status = a.decide(ctx, c.User, r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	case *authorizationv1.SubjectAccessReview:
		r.Status = a.decide(ctx, subject(r.Spec), r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	case *authorizationv1.LocalSubjectAccessReview:
		r.Status = a.decide(ctx, subject(r.Spec), r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	}
	return c.Body, http.StatusCreated, nil
}

// question prepares a review to be answered: whose it is, where, and whether it asks anything at all.
func question(ctx context.Context, c *apiserver.ActionCall) error {
	o, kind := c.Body.(resource.Object), c.Options.Face.Of
	if c.Namespace != "" && o.GetNamespace() != "" && o.GetNamespace() != c.Namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	o.SetNamespace(c.Namespace)
	if c.Registry.Track != nil {
		if err := c.Registry.Track.Track(c.Options.Face, "", nil, o, c.Options.Manager); err != nil {
			return err
		}
	}
	if errs := kind.Main.Validate(ctx, o); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: kind.Group}, "", errs)
	}
	return nil
}

func subject(s authorizationv1.SubjectAccessReviewSpec) auth.User {
	return auth.User{Name: s.User, UID: s.UID, Groups: s.Groups}
}

func (a accessReview) decide(
	ctx context.Context, u auth.User, r *authorizationv1.ResourceAttributes, p *authorizationv1.NonResourceAttributes,
) authorizationv1.SubjectAccessReviewStatus {
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
	if c.Body.(*authorizationv1.SelfSubjectRulesReview).Spec.Namespace == "" {
		return nil, 0, apierrors.NewBadRequest("no namespace on request")
	}
	r := &authorizationv1.SelfSubjectRulesReview{}
	may := func(verb, group string, resources ...string) {
		r.Status.ResourceRules = append(r.Status.ResourceRules, authorizationv1.ResourceRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: resources})
	}
	mayPath := func(verb string, paths ...string) {
		r.Status.NonResourceRules = append(r.Status.NonResourceRules, authorizationv1.NonResourceRule{Verbs: []string{verb}, NonResourceURLs: paths})
	}
	may("create", "authorization.k8s.io", "selfsubjectaccessreviews", "selfsubjectrulesreviews")
	mayPath("get", "/healthz", "/livez", "/readyz", "/version", "/version/")
	if c.User.In(auth.Masters) {
		may("create", "authentication.k8s.io", "selfsubjectreviews")
		may("*", "*", "*")
		mayPath("get", "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version", "/version/")
		mayPath("*", "*")
	}
	return r, http.StatusCreated, nil
}
