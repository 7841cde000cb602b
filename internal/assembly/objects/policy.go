package objects

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/assembly/identity"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/auth/rbac"
	"github.com/millrace/millrace/internal/server/registry"
)

// policy is Kubernetes' bootstrap policy with additions for this cluster: the API server, which is not in
// system:masters, may call kubelets, and kubelets may create reviews.
func policy() *rbac.Policy {
	p, own := rbac.DefaultPolicy(), additions()
	p.ClusterRoles = append(p.ClusterRoles, own.ClusterRoles...)
	p.ClusterRoleBindings = append(p.ClusterRoleBindings, own.ClusterRoleBindings...)
	p.Roles = append(p.Roles, own.Roles...)
	p.RoleBindings = append(p.RoleBindings, own.RoleBindings...)
	return p
}

// OwnKeys returns the keys of the objects that a kube-apiserver does not make, and that stay when it takes this
// server's place.
func OwnKeys() (keys []string) {
	own := additions()
	for _, o := range own.ClusterRoles {
		keys = append(keys, registry.Root+"clusterroles/"+o.Name)
	}
	for _, o := range own.ClusterRoleBindings {
		keys = append(keys, registry.Root+"clusterrolebindings/"+o.Name)
	}
	for _, o := range own.Roles {
		keys = append(keys, registry.Root+"roles/"+o.Namespace+"/"+o.Name)
	}
	for _, o := range own.RoleBindings {
		keys = append(keys, registry.Root+"rolebindings/"+o.Namespace+"/"+o.Name)
	}
	return keys
}

// additions are the roles and bindings that Kubernetes does not have. OwnKeys lists all of them.
func additions() *rbac.Policy {
	p := &rbac.Policy{}
	p.ClusterRoleBindings = append(p.ClusterRoleBindings, clusterBinding("millrace:kubelet-api-admin", "system:kubelet-api-admin", identity.KubeletClient))
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

// addComponents adds roles for components that Kubernetes does not have, or that do more here.
func addComponents(p *rbac.Policy) {
	read := []string{"get", "list", "watch"}
	addRole(p, "millrace:network", identity.Proxy.Name,
		rbacv1.PolicyRule{Verbs: read, APIGroups: []string{""}, Resources: []string{"services", "pods", "namespaces", "nodes"}},
		rbacv1.PolicyRule{Verbs: read, APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}},
		rbacv1.PolicyRule{Verbs: read, APIGroups: []string{"networking.k8s.io"}, Resources: []string{"networkpolicies"}},
	)
	addRole(p, "millrace:metrics", identity.Metrics.Name,
		rbacv1.PolicyRule{Verbs: read, APIGroups: []string{""}, Resources: []string{"nodes", "pods"}},
		rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes/proxy", "nodes/stats", "nodes/metrics"}},
	)
	addRole(p, "millrace:load-balancers", auth.AccountName(identity.SystemNamespace, "service-controller"),
		rbacv1.PolicyRule{Verbs: read, APIGroups: []string{""}, Resources: []string{"nodes", "services"}},
		rbacv1.PolicyRule{Verbs: []string{"patch"}, APIGroups: []string{""}, Resources: []string{"services/status"}},
		rbacv1.PolicyRule{Verbs: read, APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}},
		rbacv1.PolicyRule{Verbs: []string{"create", "patch", "update"}, APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}},
	)
	addRole(p, "millrace:local-volumes", auth.AccountName(identity.SystemNamespace, "local-volume-provisioner-controller"),
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
		ObjectMeta: metav1.ObjectMeta{Name: publisher, Namespace: identity.SystemNamespace},
		Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"services"}},
			{Verbs: []string{"create", "update"}, APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}},
		},
	})
	p.RoleBindings = append(p.RoleBindings, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: publisher, Namespace: identity.SystemNamespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: publisher},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: identity.Proxy.Name}},
	})
}

// addRole adds a cluster role and binds it to a user.
func addRole(p *rbac.Policy, name, user string, rules ...rbacv1.PolicyRule) {
	p.ClusterRoles = append(p.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
	p.ClusterRoleBindings = append(p.ClusterRoleBindings, clusterBinding(name, name, user))
}

// addJoining adds the permissions that nodes need to join with a bootstrap token: tokens of kubeadm's group may request
// client certificates, which are approved; nodes may renew theirs; and everybody may read cluster-info.
func addJoining(p *rbac.Policy) {
	tokens := rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: auth.BootstrapNodes}
	nodes := rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: auth.Nodes}
	const requests = "system:certificates.k8s.io:certificatesigningrequests:"
	for _, b := range []struct {
		name, role string
		subject    rbacv1.Subject
	}{
		{"millrace:node-bootstrapper", "system:node-bootstrapper", tokens},
		{"millrace:node-autoapprove-bootstrap", requests + "nodeclient", tokens},
		{"millrace:node-autoapprove-certificate-rotation", requests + "selfnodeclient", nodes},
	} {
		binding := clusterBinding(b.name, b.role)
		binding.Subjects = []rbacv1.Subject{b.subject}
		p.ClusterRoleBindings = append(p.ClusterRoleBindings, binding)
	}
	const reader = "millrace:cluster-info"
	p.Roles = append(p.Roles, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: reader, Namespace: infoNamespace},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{infoName}}},
	})
	p.RoleBindings = append(p.RoleBindings, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: reader, Namespace: infoNamespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: reader},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: auth.Anonymous}},
	})
}
