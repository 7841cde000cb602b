package node

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/auth/rbac"
	"github.com/millrace/millrace/internal/server/registry"
)

// Authorizer has an opinion about nodes only, and never denies.
type Authorizer struct {
	cluster *cluster
	// others are the rules for resources that all nodes use in the same way.
	others *rbac.Rules
}

// New makes an authorizer. Close lets go of its place in the history of pods.
func New(r *registry.Registry) *Authorizer {
	return &Authorizer{cluster: newCluster(r), others: rbac.DefaultPolicy().RulesOf("system:node")}
}

// Close ends what the authorizer has begun. It may be asked afterwards, and begins anew.
func (a *Authorizer) Close() { a.cluster.pods.close() }

// Authorize implements auth.Authorizer.
func (a *Authorizer) Authorize(ctx context.Context, at auth.Attributes) auth.Verdict {
	node, ok := auth.NodeOf(at.User)
	if !ok {
		return auth.Verdict{}
	}
	if at.IsResource {
		if rule, ok := divided[schema.GroupResource{Group: at.Group, Resource: at.Resource}]; ok {
			return a.divide(ctx, node, &at, rule)
		}
	}
	if a.others.Allow(&at) {
		return allowed
	}
	return auth.Verdict{}
}

// divide decides about a resource of which each node may use a part.
func (a *Authorizer) divide(ctx context.Context, node string, at *auth.Attributes, rule rule) auth.Verdict {
	switch d := rule(node, at); {
	case d.allow:
		return allowed
	case d.of == "":
		return auth.Verdict{Reason: auth.Words(d.reason)}
	case at.Name == "":
		return auth.Verdict{Reason: auth.Words("No Object name found")}
	default:
		return a.relates(ctx, node, d.of, at)
	}
}

func (a *Authorizer) relates(ctx context.Context, node string, of thing, at *auth.Attributes) auth.Verdict {
	for _, newest := range []bool{false, true} {
		ok, err := a.cluster.relates(ctx, node, of, at.Namespace, at.Name, newest)
		if ok {
			return allowed
		}
		if err != nil {
			return auth.Verdict{Err: err}
		}
	}
	return auth.Verdict{Reason: unrelated(node)}
}

// Rules implements auth.Authorizer. What a node may do depends on its pods, and is not listed.
func (a *Authorizer) Rules(_ context.Context, u auth.User, _ string) auth.Rules {
	if _, ok := auth.NodeOf(u); !ok {
		return auth.Rules{}
	}
	return auth.Rules{Incomplete: true, Errors: []error{errNoRules}}
}

var errNoRules = errors.New("node authorizer does not support user rule resolution")

var allowed = auth.Verdict{Decision: auth.Allow}

type unrelated string

func (node unrelated) String() string {
	return fmt.Sprintf("no relationship found between node '%s' and this object", string(node))
}
