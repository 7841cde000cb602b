package actions

import (
	"context"
	"errors"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/resource"
)

// reviewSelf answers a SelfSubjectReview.
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

// tokenReview answers TokenReviews.
type tokenReview struct{ tokens auth.Tokens }

// Act implements apiserver.Action.
func (t tokenReview) Act(ctx context.Context, c *apiserver.ActionCall) (runtime.Object, int, error) {
	r := c.Body.(*authenticationv1.TokenReview)
	if r.Spec.Token == "" {
		return nil, 0, apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	if err := completeReview(ctx, c); err != nil {
		return nil, 0, err
	}
	h, err := t.tokens.Holder(ctx, r.Spec.Token, r.Spec.Audiences)
	switch {
	case err == nil:
		h.User.Groups = auth.WithAuthenticated(h.User.Groups)
		r.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: userInfo(h.User), Audiences: h.Audiences}
	case errors.Is(err, auth.ErrUnknownToken), errors.Is(err, auth.ErrUnauthorized):
		r.Status = authenticationv1.TokenReviewStatus{Error: "invalid bearer token"}
	default:
		r.Status = authenticationv1.TokenReviewStatus{Error: err.Error()}
	}
	return r, http.StatusCreated, nil
}

// accessReview answers access reviews, for the requesting user or for another.
type accessReview struct{ authorize auth.Authorizer }

// Act implements apiserver.Action.
func (a accessReview) Act(ctx context.Context, c *apiserver.ActionCall) (runtime.Object, int, error) {
	if err := completeReview(ctx, c); err != nil {
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

// completeReview completes and validates a review: its user, and that it asks about a resource or a path.
func completeReview(ctx context.Context, c *apiserver.ActionCall) error {
	o, kind := c.Body.(resource.Object), c.Options.Face.Of
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
	u := auth.User{Name: s.User, UID: s.UID, Groups: s.Groups}
	for k, v := range s.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[strings.ToLower(k)] = v
	}
	return u
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
		ask.Fields, ask.Labels = fieldSelector(r.FieldSelector), labelSelector(r.LabelSelector)
	case p != nil:
		ask.Verb, ask.Path = p.Verb, p.Path
	}
	v := a.authorize.Authorize(ctx, ask)
	status := authorizationv1.SubjectAccessReviewStatus{Allowed: v.Allowed(), Denied: v.Decision == auth.Deny, Reason: v.Why()}
	if v.Err != nil {
		status.EvaluationError = v.Err.Error()
	}
	return status
}

// fieldSelector parses the field selector of a review. A selector that cannot be parsed is ignored.
func fieldSelector(s *authorizationv1.FieldSelectorAttributes) fields.Requirements {
	if s == nil {
		return nil
	}
	if s.RawSelector != "" {
		parsed, err := fields.ParseSelector(s.RawSelector)
		if err != nil {
			return nil
		}
		return parsed.Requirements()
	}
	var out fields.Requirements
	for _, r := range s.Requirements {
		operators := map[metav1.FieldSelectorOperator]selection.Operator{metav1.FieldSelectorOpIn: selection.Equals, metav1.FieldSelectorOpNotIn: selection.NotEquals}
		if operator, known := operators[r.Operator]; known && len(r.Values) == 1 {
			out = append(out, fields.Requirement{Operator: operator, Field: r.Key, Value: r.Values[0]})
		}
	}
	return out
}

func labelSelector(s *authorizationv1.LabelSelectorAttributes) labels.Requirements {
	if s == nil {
		return nil
	}
	if s.RawSelector != "" {
		parsed, err := labels.ParseToRequirements(s.RawSelector)
		if err != nil {
			return nil
		}
		return parsed
	}
	var out labels.Requirements
	for _, r := range s.Requirements {
		operators := map[metav1.LabelSelectorOperator]selection.Operator{metav1.LabelSelectorOpIn: selection.In, metav1.LabelSelectorOpNotIn: selection.NotIn,
			metav1.LabelSelectorOpExists: selection.Exists, metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist}
		if made, err := labels.NewRequirement(r.Key, operators[r.Operator], r.Values); err == nil {
			out = append(out, *made)
		}
	}
	return out
}

// rulesReview lists what the user may do in a namespace.
type rulesReview struct{ authorize auth.Authorizer }

// Act implements apiserver.Action.
func (rr rulesReview) Act(ctx context.Context, c *apiserver.ActionCall) (runtime.Object, int, error) {
	namespace := c.Body.(*authorizationv1.SelfSubjectRulesReview).Spec.Namespace
	if namespace == "" {
		return nil, 0, apierrors.NewBadRequest("no namespace on request")
	}
	rules := rr.authorize.Rules(ctx, c.User, namespace)
	r := &authorizationv1.SelfSubjectRulesReview{Status: authorizationv1.SubjectRulesReviewStatus{
		ResourceRules: []authorizationv1.ResourceRule{}, NonResourceRules: []authorizationv1.NonResourceRule{}, Incomplete: rules.Incomplete,
	}}
	for _, rule := range rules.Resources {
		r.Status.ResourceRules = append(r.Status.ResourceRules, authorizationv1.ResourceRule{
			Verbs: rule.Verbs, APIGroups: rule.Groups, Resources: rule.Resources, ResourceNames: rule.Names})
	}
	for _, rule := range rules.Paths {
		r.Status.NonResourceRules = append(r.Status.NonResourceRules, authorizationv1.NonResourceRule{Verbs: rule.Verbs, NonResourceURLs: rule.Paths})
	}
	if err := errors.Join(rules.Errors...); err != nil {
		r.Status.EvaluationError = err.Error()
	}
	return r, http.StatusCreated, nil
}
