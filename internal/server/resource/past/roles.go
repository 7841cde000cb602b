package past

import (
	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1alpha1 "k8s.io/api/rbac/v1alpha1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func roles(k byName) {
	alpha, beta := rbacv1alpha1.SchemeGroupVersion, rbacv1beta1.SchemeGroupVersion
	add(k, rbacv1.GroupName, "roles",
		alike[*rbacv1.Role, rbacv1beta1.Role](beta, "Role"), alike[*rbacv1.Role, rbacv1alpha1.Role](alpha, "Role"))
	add(k, rbacv1.GroupName, "clusterroles",
		alike[*rbacv1.ClusterRole, rbacv1beta1.ClusterRole](beta, "ClusterRole"), alike[*rbacv1.ClusterRole, rbacv1alpha1.ClusterRole](alpha, "ClusterRole"))
	add(k, rbacv1.GroupName, "rolebindings",
		alike[*rbacv1.RoleBinding, rbacv1beta1.RoleBinding](beta, "RoleBinding"),
		alike(alpha, "RoleBinding", func(now *rbacv1.RoleBinding, old *rbacv1alpha1.RoleBinding) { subjects(now.Subjects, old.Subjects) }))
	add(k, rbacv1.GroupName, "clusterrolebindings",
		alike[*rbacv1.ClusterRoleBinding, rbacv1beta1.ClusterRoleBinding](beta, "ClusterRoleBinding"),
		alike(alpha, "ClusterRoleBinding", func(now *rbacv1.ClusterRoleBinding, old *rbacv1alpha1.ClusterRoleBinding) {
			subjects(now.Subjects, old.Subjects)
		}))
}

// subjects sets the groups of subjects, of which v1alpha1 has a version. The user "*" was every authenticated user.
func subjects(now []rbacv1.Subject, old []rbacv1alpha1.Subject) {
	for i := range now {
		switch s := &now[i]; s.Kind {
		case rbacv1.ServiceAccountKind:
			s.APIGroup = ""
		case rbacv1.UserKind, rbacv1.GroupKind:
			if s.APIGroup = rbacv1.GroupName; s.Kind == rbacv1.UserKind && s.Name == "*" {
				s.Kind, s.Name = rbacv1.GroupKind, "system:authenticated"
			}
		default:
			if gv, err := schema.ParseGroupVersion(old[i].APIVersion); err == nil {
				s.APIGroup = gv.Group
			}
		}
	}
}
