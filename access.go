package millrace

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/server/auth"
	"github.com/millrace/millrace/server/auth/node"
	"github.com/millrace/millrace/server/auth/rbac"
	"github.com/millrace/millrace/server/auth/webhook"
	"github.com/millrace/millrace/server/registry"
)

// defaultAuthorization are the modes of a cluster that does not say otherwise.
var defaultAuthorization = []string{"Node", "RBAC"}

// permissions decide who may do what. There is one for the whole cluster.
type permissions struct {
	auth.Union
	roles    *rbac.Authorizer // nil without the mode RBAC
	nodes    *node.Authorizer // nil without the mode Node
	registry func() *registry.Registry
}

// newPermissions makes the authorizers of some modes, which are asked in that order after the administrators' own.
func newPermissions(modes []string, o rbac.Options, w webhook.AuthorizerOptions) (*permissions, error) {
	p := &permissions{Union: auth.Union{auth.MastersMay{}}, registry: o.Registry}
	for _, mode := range modes {
		switch mode {
		case "AlwaysAllow":
			p.Union = append(p.Union, auth.Always(auth.Allow))
		case "AlwaysDeny":
			p.Union = append(p.Union, auth.Always(auth.NoOpinion))
		case "Node":
			p.nodes = node.New(o.Registry)
			p.Union = append(p.Union, p.nodes)
		case "RBAC":
			p.roles = rbac.New(o)
			p.Union = append(p.Union, p.roles)
		case "Webhook":
			a, err := webhook.NewAuthorizer(w)
			if err != nil {
				return nil, err
			}
			p.Union = append(p.Union, a)
		default:
			return nil, fmt.Errorf("authorization mode %q is none of AlwaysAllow, AlwaysDeny, Node, RBAC and Webhook", mode)
		}
	}
	return p, nil
}

// admission is what the permissions have to say of changes: nodes change what is theirs, and nobody gives more than they have.
func (p *permissions) admission() []registry.Admission {
	all := []registry.Admission{node.Restriction(p.registry, p)}
	if p.roles != nil {
		all = append(all, p.roles.Escalation(p))
	}
	return all
}

// follow starts to follow the roles of the cluster, and returns when they are known.
func (c *Cluster) follow(ctx context.Context, p *permissions) error {
	if p.nodes != nil {
		c.opened("permissions of nodes", func() error { p.nodes.Close(); return nil })
	}
	if p.roles == nil {
		return nil
	}
	c.run("roles", p.roles.Run)
	return p.roles.WaitReady(ctx)
}

// asAdministrator is how requests from inside come that do not say who makes them.
func asAdministrator(ctx context.Context) context.Context {
	if auth.UserFrom(ctx).Name != "" {
		return ctx
	}
	return auth.WithUser(ctx, auth.User{Name: "system:millrace", Groups: []string{auth.Masters, auth.Authenticated}})
}

// policy is Kubernetes' own, and what this cluster's parts need beyond it: the API server, which is nobody's master, calls
// kubelets that may ask what it is allowed.
func policy() *rbac.Policy {
	p := rbac.DefaultPolicy()
	p.ClusterRoleBindings = append(p.ClusterRoleBindings, clusterBinding("millrace:kubelet-api-admin", "system:kubelet-api-admin", kubeletClient))
	addJoining(p)
	addComponents(p)
	return p
}

func clusterBinding(name, role string, users ...string) *rbacv1.ClusterRoleBinding {
	b := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
	for _, u := range users {
		b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: u})
	}
	return b
}
