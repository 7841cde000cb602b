// Package admission is what a cluster insists on beyond the rules of each kind: that a namespace exists, that pods have a
// priority and tolerate short outages of their node, and the like. Each plugin does what Kubernetes' plugin of the same
// name does.
package admission

import "github.com/millrace/millrace/registry"

// Default are the plugins that are on by default, in the order in which they are asked.
func Default(r func() *registry.Registry) []registry.Admission {
	return []registry.Admission{
		NamespaceLifecycle(r),
		Priority(r),
		DefaultTolerationSeconds(),
	}
}
