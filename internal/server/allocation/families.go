package allocation

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/millrace/millrace/internal/server/resource/core"
)

func familyOf(a netip.Addr) corev1.IPFamily {
	if a.Unmap().Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// parseAddress parses addresses as leniently as older servers did, because such addresses may be stored.
func parseAddress(s string) (netip.Addr, bool) {
	a, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(s))
	return a.Unmap(), ok
}

// addressesOf returns the addresses that a service has.
func addressesOf(s *corev1.Service) []netip.Addr {
	if s.Spec.Type == corev1.ServiceTypeExternalName || isHeadless(s) {
		return nil
	}
	var out []netip.Addr
	for _, ip := range s.Spec.ClusterIPs {
		if a, ok := parseAddress(ip); ok {
			out = append(out, a)
		}
	}
	return out
}

func isHeadless(s *corev1.Service) bool { return s.Spec.ClusterIP == corev1.ClusterIPNone }

func isExternalName(s *corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeExternalName }

func policyOf(s *corev1.Service) corev1.IPFamilyPolicy {
	if s.Spec.IPFamilyPolicy == nil {
		return ""
	}
	return *s.Spec.IPFamilyPolicy
}

// keepsFamilies reports whether the service keeps its families: it prefers two and its families are not changed, even
// if the cluster has since got a second one.
func (c *change) keepsFamilies() bool {
	return c.old != nil && !isExternalName(c.svc) && c.svc.Spec.Type == c.old.Spec.Type &&
		policyOf(c.svc) == corev1.IPFamilyPolicyPreferDualStack &&
		(policyOf(c.old) == "" || policyOf(c.old) == corev1.IPFamilyPolicyPreferDualStack) &&
		slices.Equal(c.svc.Spec.ClusterIPs, c.old.Spec.ClusterIPs) && slices.Equal(c.svc.Spec.IPFamilies, c.old.Spec.IPFamilies)
}

// completeFamilies sets the families of the service and its policy.
func (c *change) completeFamilies() error {
	spec := &c.svc.Spec
	if isExternalName(c.svc) || c.keepsFamilies() {
		return nil
	}
	if spec.IPFamilyPolicy == nil {
		spec.IPFamilyPolicy = c.defaultPolicy()
	}
	if errs := core.CheckClusterIPs(c.svc, c.old); len(errs) > 0 {
		return c.invalid(errs...)
	}
	errs := c.checkReduction()
	errs = append(errs, c.checkPolicy()...)
	if errs = append(errs, c.inferFamilies()...); len(errs) > 0 {
		return c.invalid(errs...)
	}
	free := isHeadless(c.svc) && len(spec.Selector) == 0 // its addresses are not allocated, so it is not limited to the cluster's families
	if !free {
		if errs := c.checkConfigured(); len(errs) > 0 {
			return c.invalid(errs...)
		}
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{c.families[0]}
	}
	if policyOf(c.svc) != corev1.IPFamilyPolicySingleStack && len(spec.IPFamilies) == 1 && (free || len(c.families) == 2) {
		spec.IPFamilies = append(spec.IPFamilies, otherFamily(spec.IPFamilies[0]))
	}
	return nil
}

func (c *change) defaultPolicy() *corev1.IPFamilyPolicy {
	switch {
	case c.old != nil && c.old.Spec.IPFamilyPolicy != nil:
		return new(*c.old.Spec.IPFamilyPolicy)
	case isHeadless(c.svc) && len(c.svc.Spec.Selector) == 0:
		return new(corev1.IPFamilyPolicyRequireDualStack)
	}
	return new(corev1.IPFamilyPolicySingleStack)
}

// checkReduction refuses to remove the second family unless the policy asks for it.
func (c *change) checkReduction() field.ErrorList {
	if c.old == nil {
		return nil
	}
	spec, was := &c.svc.Spec, &c.old.Spec
	if policyOf(c.svc) == corev1.IPFamilyPolicySingleStack {
		if slices.Equal(spec.ClusterIPs, was.ClusterIPs) && len(spec.ClusterIPs) > 1 {
			spec.ClusterIPs = spec.ClusterIPs[:1]
		}
		if slices.Equal(spec.IPFamilies, was.IPFamilies) && len(spec.IPFamilies) > 1 {
			spec.IPFamilies = spec.IPFamilies[:1]
		}
		return nil
	}
	var errs field.ErrorList
	path := field.NewPath("spec", "ipFamilyPolicy")
	if n := len(spec.ClusterIPs); n > 0 && n < len(was.ClusterIPs) {
		errs = append(errs, field.Invalid(path, spec.IPFamilyPolicy, "must be 'SingleStack' to release the secondary cluster IP"))
	}
	if n := len(spec.IPFamilies); n > 0 && n < len(was.IPFamilies) {
		errs = append(errs, field.Invalid(path, spec.IPFamilyPolicy, "must be 'SingleStack' to release the secondary IP family"))
	}
	return errs
}

func (c *change) checkPolicy() field.ErrorList {
	spec, path := &c.svc.Spec, field.NewPath("spec", "ipFamilyPolicy")
	if policyOf(c.svc) != corev1.IPFamilyPolicySingleStack {
		return nil
	}
	var errs field.ErrorList
	if len(spec.ClusterIPs) == 2 {
		errs = append(errs, field.Invalid(path, spec.IPFamilyPolicy, "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified"))
	}
	if len(spec.IPFamilies) == 2 {
		errs = append(errs, field.Invalid(path, spec.IPFamilyPolicy, "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"))
	}
	return errs
}

// inferFamilies sets the families from the requested addresses.
func (c *change) inferFamilies() field.ErrorList {
	spec := &c.svc.Spec
	if isHeadless(c.svc) {
		return nil
	}
	var errs field.ErrorList
	for i, ip := range spec.ClusterIPs {
		if i < len(spec.IPFamilies) {
			continue
		}
		a, _ := parseAddress(ip)
		if f := familyOf(a); slices.Contains(c.families, f) {
			spec.IPFamilies = append(spec.IPFamilies, f)
		} else {
			errs = append(errs, field.Invalid(field.NewPath("spec", "clusterIPs").Index(i), spec.ClusterIPs, fmt.Sprintf("%s is not configured on this cluster", f)))
		}
	}
	return errs
}

func (c *change) checkConfigured() field.ErrorList {
	spec, path := &c.svc.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if policyOf(c.svc) == corev1.IPFamilyPolicyRequireDualStack && len(c.families) < 2 {
		errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), spec.IPFamilyPolicy, "this cluster is not configured for dual-stack services"))
	}
	for i, f := range spec.IPFamilies {
		if !slices.Contains(c.families, f) {
			errs = append(errs, field.Invalid(path.Child("ipFamilies").Index(i), f, "not configured on this cluster"))
		}
	}
	return errs
}

func otherFamily(f corev1.IPFamily) corev1.IPFamily {
	if f == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}
