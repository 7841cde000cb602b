// Package identity says as whom the components of a cluster send their requests in this process. They have Kubernetes'
// user names, and the roles of these names; only the administrator is in system:masters.
package identity

import (
	"context"
	"net/http"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/loop"
)

// SystemNamespace has the objects of the components.
const SystemNamespace = "kube-system"

// KubeletClient is the common name of the API server's client certificate for kubelets.
const KubeletClient = "kube-apiserver-kubelet-client"

// The components. Metrics reads usage from kubelets, Planes runs other clusters.
var (
	Controllers = Component("system:kube-controller-manager")
	Scheduler   = Component("system:kube-scheduler")
	Proxy       = Component("system:kube-proxy")
	Metrics     = Component("system:metrics-server")
	Planes      = auth.User{Name: "system:millrace-planes", Groups: []string{auth.Masters, auth.Authenticated}}
)

// Component returns an authenticated user without other groups.
func Component(name string) auth.User {
	return auth.User{Name: name, Groups: []string{auth.Authenticated}}
}

// AsAdministrator gives requests that name no user the identity of the administrator.
func AsAdministrator(ctx context.Context) context.Context {
	if auth.UserFrom(ctx).Name != "" {
		return ctx
	}
	return auth.WithUser(ctx, auth.User{Name: "system:millrace", Groups: []string{auth.Masters, auth.Authenticated}})
}

// As runs a component with its own user.
func As(u auth.User, r loop.Runner) loop.Runner {
	return loop.Func(func(ctx context.Context) error { return r.Run(auth.WithUser(ctx, u)) })
}

// AsAccount returns the context for requests of a service account in SystemNamespace; without a name, ctx.
func AsAccount(ctx context.Context, account string) context.Context {
	if account == "" {
		return ctx
	}
	return auth.WithUser(ctx, auth.User{
		Name: auth.AccountName(SystemNamespace, account), Groups: append(auth.AccountGroups(SystemNamespace), auth.Authenticated),
	})
}

// AsNode returns the context for requests of a node's kubelet.
func AsNode(ctx context.Context, node string) context.Context {
	return auth.WithUser(ctx, auth.User{Name: auth.NodePrefix + node, Groups: []string{auth.Nodes, auth.Authenticated}})
}

// From sends in-process requests as a user.
type From struct {
	User auth.User
	Next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f From) RoundTrip(r *http.Request) (*http.Response, error) {
	return f.Next.RoundTrip(r.WithContext(auth.WithUser(r.Context(), f.User)))
}

// Otherwise sends in-process requests without a user as the given user, not as the administrator.
type Otherwise From

// RoundTrip implements http.RoundTripper.
func (o Otherwise) RoundTrip(r *http.Request) (*http.Response, error) {
	if auth.UserFrom(r.Context()).Name != "" {
		return o.Next.RoundTrip(r)
	}
	return From(o).RoundTrip(r)
}
