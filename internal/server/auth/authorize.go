package auth

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Attributes are what a decision rests on.
type Attributes struct {
	User User
	Verb string
	// IsResource tells requests for resources from those for other paths, which have Verb and Path alone.
	IsResource                                             bool
	Group, Version, Resource, Subresource, Namespace, Name string
	// Fields and Labels are the selectors of a list, a watch or a delete of a collection; nil selects everything.
	Fields fields.Requirements
	Labels labels.Requirements
	Path   string
}

// Decision is what an authorizer says.
type Decision uint8

// An authorizer that knows nothing about a request has no opinion, so that the next is asked.
const (
	NoOpinion Decision = iota
	Allow
	Deny
)

// Verdict is a decision and what led to it.
type Verdict struct {
	Decision Decision
	// Reason says why, and may be nil. It is made into words only if somebody asks.
	Reason fmt.Stringer
	// Err is what went wrong on the way to the decision.
	Err error
}

// Allowed tells that the request may go on.
func (v Verdict) Allowed() bool { return v.Decision == Allow }

// Why is the reason in words, or empty.
func (v Verdict) Why() string {
	if v.Reason == nil {
		return ""
	}
	return v.Reason.String()
}

// Words are a reason that is known beforehand.
type Words string

func (w Words) String() string { return string(w) }

// Rules are what a user may do, as far as an authorizer can list it.
type Rules struct {
	Resources []ResourceRule
	Paths     []PathRule
	// Incomplete says that the user may be allowed more than that; Errors why.
	Incomplete bool
	Errors     []error
}

// ResourceRule allows verbs on resources; "*" is all of them, and no names are all names.
type ResourceRule struct{ Verbs, Groups, Resources, Names []string }

// PathRule allows verbs on paths that are not resources.
type PathRule struct{ Verbs, Paths []string }

// Authorizer decides whether something may be done. It can be called by many goroutines.
type Authorizer interface {
	Authorize(context.Context, Attributes) Verdict
	// Rules lists what a user may do in a namespace.
	Rules(ctx context.Context, u User, namespace string) Rules
}

// Union asks authorizers in order. The first that allows or denies decides.
type Union []Authorizer

// Authorize implements Authorizer.
func (un Union) Authorize(ctx context.Context, a Attributes) Verdict {
	var none Verdict
	for _, one := range un {
		v := one.Authorize(ctx, a)
		if v.Decision != NoOpinion {
			return v
		}
		none.Reason = both(none.Reason, v.Reason)
		if v.Err != nil {
			none.Err = errors.Join(none.Err, v.Err)
		}
	}
	return none
}

// both joins the reasons of two authorizers: each has a line, as in Kubernetes.
func both(a, b fmt.Stringer) fmt.Stringer {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return Words(a.String() + "\n" + b.String())
}

// Rules implements Authorizer.
func (un Union) Rules(ctx context.Context, u User, namespace string) Rules {
	var out Rules
	for _, one := range un {
		r := one.Rules(ctx, u, namespace)
		out.Resources = append(out.Resources, r.Resources...)
		out.Paths = append(out.Paths, r.Paths...)
		out.Errors = append(out.Errors, r.Errors...)
		out.Incomplete = out.Incomplete || r.Incomplete
	}
	return out
}

var everything = Rules{
	Resources: []ResourceRule{{Verbs: []string{"*"}, Groups: []string{"*"}, Resources: []string{"*"}}},
	Paths:     []PathRule{{Verbs: []string{"*"}, Paths: []string{"*"}}},
}

// MastersMay allows everything to members of system:masters and has no opinion about others.
type MastersMay struct{}

// Authorize implements Authorizer.
func (MastersMay) Authorize(_ context.Context, a Attributes) Verdict {
	if a.User.In(Masters) {
		return Verdict{Decision: Allow}
	}
	return Verdict{}
}

// Rules implements Authorizer. There is no rule behind it; as in Kubernetes, a binding says the same to who asks for
// rules.
func (MastersMay) Rules(context.Context, User, string) Rules { return Rules{} }

// Always decides about every request in the same way: the modes AlwaysAllow and AlwaysDeny.
type Always Decision

// Authorize implements Authorizer.
func (a Always) Authorize(context.Context, Attributes) Verdict {
	if Decision(a) == Allow {
		return Verdict{Decision: Allow}
	}
	return Verdict{Decision: NoOpinion, Reason: Words("Everything is forbidden.")}
}

// Rules implements Authorizer.
func (a Always) Rules(context.Context, User, string) Rules {
	if Decision(a) == Allow {
		return everything
	}
	return Rules{}
}
