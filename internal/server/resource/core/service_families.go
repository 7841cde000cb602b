package core

import (
	"fmt"
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
)

// CheckClusterIPs checks that a service's addresses and IP families fit together. The allocator calls it before it
// allocates addresses; it is also part of the service's validation.
func CheckClusterIPs(s, old *corev1.Service) field.ErrorList {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	path := field.NewPath("spec")
	errs := checkOneAndMany(&s.Spec, path.Child("clusterIPs"))
	errs = append(errs, checkFamilies(&s.Spec, path)...)
	bad := checkAddresses(s.Spec.ClusterIPs, oldServiceSpec(old).ClusterIPs, path.Child("clusterIPs"))
	errs = append(errs, bad...)
	ips := s.Spec.ClusterIPs
	if len(ips) > 2 {
		errs = append(errs, field.Invalid(path.Child("clusterIPs"), ips, "may only hold up to 2 values"))
	}
	if len(bad) > 0 {
		return errs
	}
	if len(ips) > 1 {
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
