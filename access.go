package millrace

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/auth/abac"
	"github.com/millrace/millrace/internal/server/auth/chain"
	"github.com/millrace/millrace/internal/server/auth/node"
	"github.com/millrace/millrace/internal/server/auth/rbac"
	"github.com/millrace/millrace/internal/server/registry"
)

// defaultAuthorization has the authorization modes if none are set.
var defaultAuthorization = []string{"Node", "RBAC"}

// permissions has the authorizers of the cluster. There is one instance.
type permissions struct {
	*chain.Chain
	roles    *rbac.Authorizer // nil without the mode RBAC
	nodes    *node.Authorizer // nil without the mode Node
	registry *registry.Registry
}

// newPermissions makes the authorizers that the options say.
func (c *Cluster) newPermissions(reg *registry.Registry) (*permissions, error) {
	p, o := &permissions{registry: reg}, c.options
	chained := chain.Options{File: o.AuthorizationConfig, Configuration: chain.Modes(o.Authorization), Webhook: o.AuthorizationWebhook, ServerID: c.identity(),
		Own: func(kind string) (auth.Authorizer, error) { return p.own(kind, &o) }, Logger: o.Logger}
	var err error
	p.Chain, err = chain.New(chained)
	if err == nil && p.nodes == nil && (o.Nodes > 0 || o.Runtime != "") {
		err = errors.New("a cluster with nodes of its own needs an authorizer of the type Node")
	}
	return p, err
}

// own makes an authorizer that is no webhook.
func (p *permissions) own(kind string, o *Options) (auth.Authorizer, error) {
	switch kind {
	case chain.AlwaysAllow:
		return auth.Always(auth.Allow), nil
	case chain.AlwaysDeny:
		return auth.Always(auth.NoOpinion), nil
	case chain.ABAC:
		if o.AuthorizationPolicyFile == "" {
			return nil, errors.New("authorization-mode ABAC's authorization policy file not passed")
		}
		return abac.Read(o.AuthorizationPolicyFile)
	case chain.Node:
		p.nodes = node.New(p.registry)
		return p.nodes, nil
	case chain.RBAC:
		p.roles = rbac.New(rbac.Options{Registry: p.registry, Shared: len(o.Etcd.Servers) > 0, Logger: o.Logger})
		return p.roles, nil
	}
	return nil, fmt.Errorf("authorization-mode %q is not a valid mode", kind)
}

// admission returns the admission plugins that depend on permissions: nodes may only change their own objects, and nobody can
// grant permissions that they do not have.
func (p *permissions) admission() []registry.Admission {
	all := []registry.Admission{node.Restriction(p.registry, p)}
	if p.roles != nil {
		all = append(all, p.roles.Escalation(p))
	}
	return all
}

// follow starts to watch the cluster's roles, and returns when they are known.
func (c *Cluster) follow(ctx context.Context, p *permissions) error {
	c.run("authorization configuration", p.Run)
	if p.nodes != nil {
		c.opened("permissions of nodes", func() error { p.nodes.Close(); return nil })
	}
	if p.roles == nil {
		return nil
	}
	c.run("roles", p.roles.Run)
	return p.roles.WaitReady(ctx)
}

// asAdministrator is the identity of in-process requests that name no user.
func asAdministrator(ctx context.Context) context.Context {
	if auth.UserFrom(ctx).Name != "" {
		return ctx
	}
	return auth.WithUser(ctx, auth.User{Name: "system:millrace", Groups: []string{auth.Masters, auth.Authenticated}})
}

// policy is Kubernetes' bootstrap policy with additions for this cluster: the API server, which is not in system:masters, may
// call kubelets, and kubelets may create reviews.
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

const systemNamespace = "kube-system"

// metricsUser is the user that reads usage from kubelets.
const metricsUser = "system:metrics-server"

// addComponents adds roles for components that Kubernetes does not have, or that do more here.
func addComponents(p *rbac.Policy) {
	read := []string{"get", "list", "watch"}
	addRole(p, "millrace:network", proxyUser.Name,
		rbacv1.PolicyRule{Verbs: read, APIGroups: []string{""}, Resources: []string{"services", "pods", "namespaces", "nodes"}},
		rbacv1.PolicyRule{Verbs: read, APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}},
		rbacv1.PolicyRule{Verbs: read, APIGroups: []string{"networking.k8s.io"}, Resources: []string{"networkpolicies"}},
	)
	addRole(p, "millrace:metrics", metricsUser,
		rbacv1.PolicyRule{Verbs: read, APIGroups: []string{""}, Resources: []string{"nodes", "pods"}},
		rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes/proxy", "nodes/stats", "nodes/metrics"}},
	)
	addRole(p, "millrace:load-balancers", auth.AccountName(systemNamespace, "service-controller"),
		rbacv1.PolicyRule{Verbs: read, APIGroups: []string{""}, Resources: []string{"nodes", "services"}},
		rbacv1.PolicyRule{Verbs: []string{"patch"}, APIGroups: []string{""}, Resources: []string{"services/status"}},
		rbacv1.PolicyRule{Verbs: read, APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}},
		rbacv1.PolicyRule{Verbs: []string{"create", "patch", "update"}, APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}},
	)
	addRole(p, "millrace:local-volumes", auth.AccountName(systemNamespace, "local-volume-provisioner-controller"),
		rbacv1.PolicyRule{Verbs: append([]string{"create", "update", "delete"}, read...), APIGroups: []string{""}, Resources: []string{"persistentvolumes"}},
		rbacv1.PolicyRule{Verbs: append([]string{"update"}, read...), APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}},
		rbacv1.PolicyRule{Verbs: read, APIGroups: []string{""}, Resources: []string{"nodes", "pods"}},
		rbacv1.PolicyRule{Verbs: []string{"delete"}, APIGroups: []string{""}, Resources: []string{"nodes/proxy"}},
		rbacv1.PolicyRule{Verbs: append([]string{"create"}, read...), APIGroups: []string{"storage.k8s.io"}, Resources: []string{"storageclasses"}},
		rbacv1.PolicyRule{Verbs: []string{"create", "patch", "update"}, APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}},
	)
	// The DNS server publishes itself with a Service and its EndpointSlices.
	const publisher = "millrace:dns"
	p.Roles = append(p.Roles, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: publisher, Namespace: systemNamespace},
		Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"services"}},
			{Verbs: []string{"create", "update"}, APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}},
		},
	})
	p.RoleBindings = append(p.RoleBindings, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: publisher, Namespace: systemNamespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: publisher},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: proxyUser.Name}},
	})
}

// addRole adds a cluster role and binds it to a user.
func addRole(p *rbac.Policy, name, user string, rules ...rbacv1.PolicyRule) {
	p.ClusterRoles = append(p.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
	p.ClusterRoleBindings = append(p.ClusterRoleBindings, clusterBinding(name, name, user))
}
