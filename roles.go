package millrace

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/server/auth"
	"github.com/millrace/millrace/server/auth/rbac"
)

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
