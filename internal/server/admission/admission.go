// Package admission is what a cluster insists on beyond the rules of each kind: that a namespace exists, that pods have
// a priority and an account, that limits and quotas hold, and the like. Each plugin does what Kubernetes' plugin of the
// same name does.
//
// What they look up comes from the watch cache, decoded once for each version; a plugin that a change does not concern
// costs it next to nothing. So they may miss what was written a moment ago, except that nothing is said to be missing
// before the newest state was asked, and that nothing outlives its namespace. Quotas are charged by compare-and-swap
// and never exceeded.
package admission

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// Options say what the plugins stand on. Registry is required.
type Options struct {
	// Registry is what they look into.
	Registry *registry.Registry
	// ServiceAccounts gives pods an account and its token. It needs somebody who makes the accounts: without one no pod
	// could be created.
	ServiceAccounts bool
	// Authorize tells who may approve and sign certificates; nil lets everybody who may change the request.
	Authorize auth.Authorizer
	// NotReadySeconds and UnreachableSeconds are for how long a pod stays on a node that is not ready or cannot be
	// reached, unless it says something else. Nil means five minutes.
	NotReadySeconds, UnreachableSeconds *int64
	// Enable and Disable name plugins that are not as they are by default; Configuration sets some of them up.
	Enable, Disable []string
	Configuration   Configuration
	// Extensions are plugins of other rooms: webhooks and policies, and what nodes may change. They are asked where
	// Kubernetes asks the plugin of their name; those with other names come last.
	Extensions []registry.Admission
}

// Default are the plugins that are on by default. It panics if the options are wrong, which only New checks.
func Default(o Options) []registry.Admission {
	all, err := New(o)
	if err != nil {
		panic(fmt.Sprintf("admission: %v", err))
	}
	return all
}

// creates tells that a new object of the kind is about to be.
func creates(c *registry.Change, of string) bool {
	return c.Operation == registry.Create && c.View == "" && is(c, "", of)
}

func is(c *registry.Change, group, of string) bool {
	return c.Kind.Resource == of && c.Kind.Group == group
}

// forbidden refuses a change in the words that Kubernetes has for it.
func forbidden(c *registry.Change, format string, args ...any) error {
	return apierrors.NewForbidden(c.Kind.GroupResource(), nameOf(c), fmt.Errorf(format, args...))
}

func nameOf(c *registry.Change) string {
	name := c.Name
	if c.Object != nil {
		if n := c.Object.GetName(); n != "" {
			name = n
		} else if name == "" {
			name = c.Object.GetGenerateName()
		}
	}
	if name == "" {
		return "Unknown"
	}
	return name
}

func mutating(name string, f func(context.Context, *registry.Change) error) registry.Admission {
	return registry.Admission{Name: name, Mutate: f}
}

func validating(name string, f func(context.Context, *registry.Change) error) registry.Admission {
	return registry.Admission{Name: name, Validate: f}
}

// authorized asks whether the caller may do something to a signer.
func authorized(ctx context.Context, a auth.Authorizer, verb, signer string) bool {
	if a == nil {
		return true
	}
	call := resource.CallFrom(ctx)
	user := auth.User{Name: call.User, UID: call.UID, Groups: call.Groups, Extra: call.Extra}
	for _, name := range signerNames(signer) {
		if a.Authorize(ctx, auth.Attributes{
			User: user, Verb: verb, Group: "certificates.k8s.io", Version: "*", Resource: "signers", Name: name, IsResource: true,
		}).Allowed() {
			return true
		}
	}
	return false
}
