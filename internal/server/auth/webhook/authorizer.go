package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	authorizationv1beta1 "k8s.io/api/authorization/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/millrace/millrace/internal/review"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/auth/expression"
)

// AuthorizerOptions say whom to ask. ConfigFile, a kubeconfig, is needed.
type AuthorizerOptions struct {
	// Name is for metrics.
	Name       string
	ConfigFile string
	// Timeout bounds a question: 30 seconds by default.
	Timeout time.Duration
	// Version is of authorization.k8s.io: v1 or v1beta1 (the default, as in kube-apiserver).
	Version string
	// KeepAllowed and KeepRefused are how long answers are kept: 5 minutes and 30 seconds by default, less than 0 not
	// at all.
	KeepAllowed, KeepRefused time.Duration
	// DenyOnError refuses what could not be asked; otherwise there is no opinion about it.
	DenyOnError bool
	// Conditions must all be true for the webhook to be asked. It has no opinion about anything else.
	Conditions []*expression.Expression
	Metrics    *Metrics
}

// Authorizer asks a webhook what is allowed. It is an auth.Authorizer.
type Authorizer struct {
	o      AuthorizerOptions
	client *review.Client
	cache  review.Cache[authorizationv1.SubjectAccessReviewStatus]
}

// NewAuthorizer makes an authorizer. It asks nobody yet.
func NewAuthorizer(o AuthorizerOptions) (*Authorizer, error) {
	asked := func(ctx context.Context, err error, took time.Duration) { o.Metrics.asked(ctx, o.Name, err, took) }
	c, err := review.New(review.Options{ConfigFile: o.ConfigFile, Timeout: o.Timeout, Asked: asked})
	if err != nil {
		return nil, fmt.Errorf("authorization webhook: %w", err)
	}
	switch o.Version {
	case "":
		o.Version = "v1beta1"
	case "v1", "v1beta1":
	default:
		return nil, fmt.Errorf("authorization webhook: version %q is neither v1 nor v1beta1", o.Version)
	}
	if o.KeepAllowed == 0 {
		o.KeepAllowed = 5 * time.Minute
	}
	if o.KeepRefused == 0 {
		o.KeepRefused = 30 * time.Second
	}
	return &Authorizer{o: o, client: c}, nil
}

// longestKept bounds the questions whose answers are kept.
const longestKept = 10_000

// Authorize implements auth.Authorizer.
func (a *Authorizer) Authorize(ctx context.Context, at auth.Attributes) auth.Verdict {
	spec := specOf(&at)
	if yes, err := a.matches(ctx, &spec); err != nil {
		return a.failed(err)
	} else if !yes {
		return auth.Verdict{}
	}
	text, err := json.Marshal(&spec)
	if err != nil {
		return a.failed(err)
	}
	ask := func(ctx context.Context) (authorizationv1.SubjectAccessReviewStatus, time.Duration, error) {
		s, err := a.ask(ctx, spec)
		switch {
		case len(text) > longestKept:
			return s, 0, err
		case s.Allowed:
			return s, a.o.KeepAllowed, err
		}
		return s, a.o.KeepRefused, err
	}
	s, err := a.cache.Get(ctx, review.Key(sha256.Sum256(text)), ask)
	switch {
	case err != nil:
		if !a.o.DenyOnError {
			a.o.Metrics.opened(ctx, a.o.Name, err)
		}
		return a.failed(err)
	case s.Allowed && s.Denied:
		return auth.Verdict{Decision: auth.Deny, Err: errors.New("webhook subject access review returned both allow and deny response")}
	case s.Denied:
		return auth.Verdict{Decision: auth.Deny, Reason: auth.Words(s.Reason)}
	case s.Allowed:
		return auth.Verdict{Decision: auth.Allow, Reason: auth.Words(s.Reason)}
	}
	v := auth.Verdict{}
	if s.Reason != "" {
		v.Reason = auth.Words(s.Reason)
	}
	return v
}

// failed is what to say when nothing could be found out.
func (a *Authorizer) failed(err error) auth.Verdict {
	if a.o.DenyOnError {
		return auth.Verdict{Decision: auth.Deny, Err: err}
	}
	return auth.Verdict{Err: err}
}

// matches tells whether the webhook is to be asked. One condition that is false is enough, whatever is wrong with
// others.
func (a *Authorizer) matches(ctx context.Context, s *authorizationv1.SubjectAccessReviewSpec) (yes bool, err error) {
	if len(a.o.Conditions) == 0 {
		return true, nil
	}
	began := time.Now()
	defer func() { a.o.Metrics.matched(a.o.Name, yes, err, time.Since(began)) }()
	request := expression.RequestValue(s)
	for _, c := range a.o.Conditions {
		out, failed := c.Evaluate(ctx, request)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("cel evaluation error: %w", failed))
			continue
		}
		if out.Value() != true {
			return false, nil
		}
	}
	return err == nil, err
}

// Rules implements auth.Authorizer: a webhook cannot be asked for them.
func (a *Authorizer) Rules(context.Context, auth.User, string) auth.Rules {
	return auth.Rules{Incomplete: true, Errors: []error{errors.New("webhook authorizer does not support user rule resolution")}}
}

// specOf is the question about a request.
func specOf(at *auth.Attributes) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{User: at.User.Name, UID: at.User.UID, Groups: at.User.Groups}
	for name, values := range at.User.Extra {
		if spec.Extra == nil {
			spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		spec.Extra[name] = values
	}
	if !at.IsResource {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: at.Path, Verb: at.Verb}
		return spec
	}
	spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Namespace: at.Namespace, Verb: at.Verb, Group: at.Group, Version: at.Version, Resource: at.Resource, Subresource: at.Subresource, Name: at.Name,
	}
	if all := fieldRequirements(at.Fields); len(all) > 0 {
		spec.ResourceAttributes.FieldSelector = &authorizationv1.FieldSelectorAttributes{Requirements: all}
	}
	if all := labelRequirements(at.Labels); len(all) > 0 {
		spec.ResourceAttributes.LabelSelector = &authorizationv1.LabelSelectorAttributes{Requirements: all}
	}
	return spec
}

// fieldRequirements leaves out what cannot be said: the question is then about more than the request.
func fieldRequirements(from fields.Requirements) (all []metav1.FieldSelectorRequirement) {
	for _, r := range from {
		switch r.Operator {
		case selection.Equals, selection.DoubleEquals, selection.In:
			all = append(all, metav1.FieldSelectorRequirement{Key: r.Field, Operator: metav1.FieldSelectorOpIn, Values: []string{r.Value}})
		case selection.NotEquals, selection.NotIn:
			all = append(all, metav1.FieldSelectorRequirement{Key: r.Field, Operator: metav1.FieldSelectorOpNotIn, Values: []string{r.Value}})
		}
	}
	return all
}

func labelRequirements(from labels.Requirements) (all []metav1.LabelSelectorRequirement) {
	for _, r := range from {
		out := metav1.LabelSelectorRequirement{Key: r.Key(), Values: r.ValuesUnsorted()}
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			out.Operator = metav1.LabelSelectorOpIn
		case selection.NotEquals, selection.NotIn:
			out.Operator = metav1.LabelSelectorOpNotIn
		case selection.Exists:
			out.Operator, out.Values = metav1.LabelSelectorOpExists, nil
		case selection.DoesNotExist:
			out.Operator, out.Values = metav1.LabelSelectorOpDoesNotExist, nil
		default:
			continue
		}
		all = append(all, out)
	}
	return all
}

func (a *Authorizer) ask(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	meta := metav1.TypeMeta{APIVersion: "authorization.k8s.io/" + a.o.Version, Kind: "SubjectAccessReview"}
	var in any = &authorizationv1.SubjectAccessReview{TypeMeta: meta, Spec: spec}
	if a.o.Version == "v1beta1" { // where groups are called otherwise
		text, err := json.Marshal(&spec)
		if err != nil {
			return authorizationv1.SubjectAccessReviewStatus{}, err
		}
		old := &authorizationv1beta1.SubjectAccessReview{TypeMeta: meta}
		if err := json.Unmarshal(text, &old.Spec); err != nil {
			return authorizationv1.SubjectAccessReviewStatus{}, err
		}
		old.Spec.Groups = spec.Groups
		in = old
	}
	var answer authorizationv1.SubjectAccessReview
	if err := a.client.Ask(ctx, in, &answer); err != nil {
		return authorizationv1.SubjectAccessReviewStatus{}, err
	}
	return answer.Status, nil
}
