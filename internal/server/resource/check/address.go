package check

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// IP validates an address in a field that is older than the strict rules. known are earlier values, which may stay as
// they are.
func IP(value string, path *field.Path, known []string) field.ErrorList {
	return validation.IsValidIPForLegacyField(path, value, true, known)
}

// CIDR validates a range in the same way.
func CIDR(value string, path *field.Path, known []string) field.ErrorList {
	return validation.IsValidCIDRForLegacyField(path, value, true, known)
}

// EndpointIP requires an address at which an endpoint can be reached.
func EndpointIP(value string, path *field.Path) field.ErrorList {
	ip := netutils.ParseIPSloppy(value)
	var problem string
	switch {
	case ip == nil:
		problem = "must be a valid IP address"
	case ip.IsUnspecified():
		problem = fmt.Sprintf("may not be unspecified (%v)", value)
	case ip.IsLoopback():
		problem = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
	case ip.IsLinkLocalUnicast():
		problem = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
	case ip.IsLinkLocalMulticast():
		problem = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
	default:
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, problem)}
}
