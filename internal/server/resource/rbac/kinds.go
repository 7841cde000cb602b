// Package rbac describes the kinds of the group rbac.authorization.k8s.io.
package rbac

import (
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/millrace/millrace/internal/server/resource"
)

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind {
	return []*resource.Kind{ClusterRoleBindings(), ClusterRoles(), RoleBindings(), Roles()}
}

// segment allows any name that can be a segment of a path.
func segment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}
