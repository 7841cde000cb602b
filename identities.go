package millrace

import (
	"context"
	"net/http"

	"github.com/millrace/millrace/controllers"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/server/auth"
)

// The cluster's own components are the users that they are in any Kubernetes, and have the roles that go with these names. Only
// the administrator is a member of system:masters.
var (
	controllerUser = component("system:kube-controller-manager")
	schedulerUser  = component("system:kube-scheduler")
	proxyUser      = component("system:kube-proxy")
)

func component(name string) auth.User {
	return auth.User{Name: name, Groups: []string{auth.Authenticated}}
}

// as runs a component with its own permissions.
func as(u auth.User, r loop.Runner) loop.Runner {
	return loop.Func(func(ctx context.Context) error { return r.Run(auth.WithUser(ctx, u)) })
}

// asAccount is the context of a loop, which calls the API as its own service account in kube-system.
func asAccount(ctx context.Context, name string) context.Context {
	return auth.WithUser(ctx, auth.User{
		Name: auth.AccountName(systemNamespace, controllers.Account(name)), Groups: append(auth.AccountGroups(systemNamespace), auth.Authenticated),
	})
}

// asNode is the context of what the kubelet of a node does.
func asNode(ctx context.Context, node string) context.Context {
	return auth.WithUser(ctx, auth.User{Name: auth.NodePrefix + node, Groups: []string{auth.Nodes, auth.Authenticated}})
}

// otherwise sends requests from inside that name nobody in the name of a user, and not of the administrator.
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
