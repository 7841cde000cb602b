package millrace

import (
	"context"
	"net/http"

	"github.com/millrace/millrace/controllers"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/server/auth"
)

// The cluster's components use Kubernetes' user names, and have the roles of these names. Only the administrator is in
// system:masters.
var (
	controllerUser = component("system:kube-controller-manager")
	schedulerUser  = component("system:kube-scheduler")
	proxyUser      = component("system:kube-proxy")
)

func component(name string) auth.User {
	return auth.User{Name: name, Groups: []string{auth.Authenticated}}
}

// as runs a component with its own user.
func as(u auth.User, r loop.Runner) loop.Runner {
	return loop.Func(func(ctx context.Context) error { return r.Run(auth.WithUser(ctx, u)) })
}

// asAccount returns the context of a loop, which uses its own service account in kube-system, if it has one.
func asAccount(ctx context.Context, name string) context.Context {
	if controllers.Account(name) == "" {
		return ctx
	}
	return auth.WithUser(ctx, auth.User{
		Name: auth.AccountName(systemNamespace, controllers.Account(name)), Groups: append(auth.AccountGroups(systemNamespace), auth.Authenticated),
	})
}

// asNode returns the context for requests of a node's kubelet.
func asNode(ctx context.Context, node string) context.Context {
	return auth.WithUser(ctx, auth.User{Name: auth.NodePrefix + node, Groups: []string{auth.Nodes, auth.Authenticated}})
}

// otherwise sends in-process requests without a user as the given user, not as the administrator.
type otherwise struct {
	user auth.User
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (o otherwise) RoundTrip(r *http.Request) (*http.Response, error) {
	if auth.UserFrom(r.Context()).Name != "" {
		return o.next.RoundTrip(r)
	}
	return o.next.RoundTrip(r.WithContext(auth.WithUser(r.Context(), o.user)))
}
