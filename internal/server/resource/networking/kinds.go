// Package networking describes the kinds of the group networking.k8s.io.
package networking

import "github.com/millrace/millrace/internal/server/resource"

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind {
	return []*resource.Kind{IngressClasses(), Ingresses(), IPAddresses(), NetworkPolicies(), ServiceCIDRs()}
}
