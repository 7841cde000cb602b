package core

import (
	"fmt"
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/resource/check"
)

// CheckClusterIPs holds addresses and families of a service against each other. The registry asks for it before it hands
// out addresses; it is part of the service's validation too.
func CheckClusterIPs(s, old *corev1.Service) field.ErrorList {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	path := field.NewPath("spec")
	errs := checkOneAndMany(&s.Spec, path.Child("clusterIPs"))
	errs = append(errs, checkFamilies(&s.Spec, path)...)
	bad := checkAddresses(s.Spec.ClusterIPs, oldServiceSpec(old).ClusterIPs, path.Child("clusterIPs"))
	errs = append(errs, bad...)
	if len(bad) > 0 {
		return errs
	}
	if ips := s.Spec.ClusterIPs; len(ips) > 1 {
		if len(ips) > 2 {
			errs = append(errs, field.Invalid(path.Child("clusterIPs"), ips, "may only hold up to 2 values"))
		}
		if familyOf(ips[0]) == familyOf(ips[1]) {
			errs = append(errs, field.Invalid(path.Child("clusterIPs"), ips, "may specify no more than one IP for each IP family"))
		}
	}
	if len(errs) > 0 || isHeadless(s) {
		return errs
	}
	for i, ip := range s.Spec.ClusterIPs {
		if i < len(s.Spec.IPFamilies) && familyOf(ip) != s.Spec.IPFamilies[i] {
			errs = append(errs, field.Invalid(path.Child("clusterIPs").Index(i), ip,
				fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%v]`", s.Spec.IPFamilies[i], i)))
		}
	}
	return errs
}

func checkOneAndMany(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	one, many := spec.ClusterIP, spec.ClusterIPs
	switch {
	case one == "" && len(many) > 0:
		return field.ErrorList{field.Invalid(path, many, "must be empty when `clusterIP` is not specified")}
	case one != "" && len(many) == 0:
		return field.ErrorList{field.Required(path, "")}
	case one != "" && many[0] != one:
		return field.ErrorList{field.Invalid(path, many, "first value must match `clusterIP`")}
	}
	return nil
}

func checkFamilies(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, f := range spec.IPFamilies {
		at := path.Child("ipFamilies").Index(i)
		errs = append(errs, check.OneOf(f, at, corev1.IPv4Protocol, corev1.IPv6Protocol)...)
		if slices.Contains(spec.IPFamilies[:i], f) {
			errs = append(errs, field.Duplicate(at, f))
		}
	}
	if p := spec.IPFamilyPolicy; p != nil {
		errs = append(errs, check.OneOf(*p, path.Child("ipFamilyPolicy"), corev1.IPFamilyPolicyPreferDualStack,
			corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack)...)
	}
	return errs
}

func checkAddresses(ips, known []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, ip := range ips {
		if i > 0 || ip != corev1.ClusterIPNone {
			errs = append(errs, check.IP(ip, path.Index(i), known)...)
		} else if len(ips) > 1 {
			errs = append(errs, field.Invalid(path, ips, "'None' must be the first and only value"))
		}
	}
	return errs
}

func familyOf(ip string) corev1.IPFamily {
	if parsed := net.ParseIP(ip); parsed != nil && parsed.To4() == nil {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// CompleteFamilies decides which families a service gets in a cluster that has some, the first being its default, and
// how strictly. Services keep what they have.
func CompleteFamilies(s, old *corev1.Service, have []corev1.IPFamily) field.ErrorList {
	spec := &s.Spec
	if !needsClusterIP(spec.Type) {
		return nil
	}
	if errs := CheckClusterIPs(s, old); len(errs) > 0 {
		return errs
	}
	if len(spec.IPFamilies) == 0 || spec.IPFamilyPolicy == nil {
		completePolicy(s)
	}
	for i, ip := range spec.ClusterIPs {
		if ip != corev1.ClusterIPNone && i >= len(spec.IPFamilies) {
			spec.IPFamilies = append(spec.IPFamilies, familyOf(ip))
		}
	}
	if errs := checkConfigured(s, have); len(errs) > 0 {
		return errs
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{have[0]}
		if isHeadless(s) && len(spec.Selector) == 0 && *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack && len(have) == 1 {
			// Nobody hands out its addresses, so the cluster's families do not bound them.
			spec.IPFamilies = append(spec.IPFamilies, otherFamily(have[0]))
		}
	}
	if *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack && len(spec.IPFamilies) == 1 {
		if len(have) > 1 {
			spec.IPFamilies = append(spec.IPFamilies, otherFamily(spec.IPFamilies[0]))
		}
	}
	return nil
}

func completePolicy(s *corev1.Service) {
	if s.Spec.IPFamilyPolicy != nil {
		return
	}
	policy := corev1.IPFamilyPolicySingleStack
	switch {
	case len(s.Spec.ClusterIPs) == 2 || len(s.Spec.IPFamilies) == 2:
		policy = corev1.IPFamilyPolicyRequireDualStack
	case isHeadless(s) && len(s.Spec.Selector) == 0:
		policy = corev1.IPFamilyPolicyRequireDualStack
	}
	s.Spec.IPFamilyPolicy = &policy
}

func checkConfigured(s *corev1.Service, have []corev1.IPFamily) field.ErrorList {
	if isHeadless(s) && len(s.Spec.Selector) == 0 {
		return nil
	}
	path := field.NewPath("spec")
	if *s.Spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack && len(have) < 2 {
		return field.ErrorList{field.Invalid(path.Child("ipFamilyPolicy"), s.Spec.IPFamilyPolicy, "this cluster is not configured for dual-stack services")}
	}
	if *s.Spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack && len(s.Spec.IPFamilies) == 2 {
		return field.ErrorList{field.Invalid(path.Child("ipFamilyPolicy"), s.Spec.IPFamilyPolicy,
			"may only be `PreferDualStack` or `RequireDualStack` when multiple values are specified for `ipFamilies`")}
	}
	for i, f := range s.Spec.IPFamilies {
		if !slices.Contains(have, f) {
			return field.ErrorList{field.Invalid(path.Child("ipFamilies").Index(i), f, "not configured on this cluster")}
		}
	}
	return nil
}

func otherFamily(f corev1.IPFamily) corev1.IPFamily {
	if f == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}
