package core

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/millrace/millrace/internal/server/resource/check"
)

func checkServiceUpdate(s, old *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	if s.Spec.Type != corev1.ServiceTypeExternalName && old.Spec.Type != corev1.ServiceTypeExternalName {
		errs = checkAddressChange(s, old)
		errs = append(errs, checkFamilyChange(s, old)...)
	}
	errs = append(errs, checkClassChange(s, old)...)
	return append(errs, checkService(s, old)...)
}

// checkClassChange checks only whether the class may change; its form is validated elsewhere.
func checkClassChange(s, old *corev1.Service) field.ErrorList {
	both := s.Spec.Type == corev1.ServiceTypeLoadBalancer && old.Spec.Type == corev1.ServiceTypeLoadBalancer
	if s.Spec.LoadBalancerClass != nil && s.Spec.Type != corev1.ServiceTypeLoadBalancer && old.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "loadBalancerClass"), onlyLoadBalancer)}
	}
	if both && !equalPointers(s.Spec.LoadBalancerClass, old.Spec.LoadBalancerClass) {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "loadBalancerClass"), s.Spec.LoadBalancerClass, onceSet)}
	}
	return nil
}

// reachable are the types with a cluster IP.
var reachable = []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer}

const onceSet = "may not change once set"

// checkAddressChange allows only that a second address is added or removed.
func checkAddressChange(s, old *corev1.Service) field.ErrorList {
	if isHeadless(s) && isHeadless(old) || !slices.Contains(reachable, s.Spec.Type) {
		return nil
	}
	path := field.NewPath("spec", "clusterIPs")
	return checkPairChange(s, s.Spec.ClusterIPs, old.Spec.ClusterIPs, "clusterIP", path.Index)
}

// checkFamilyChange allows the same for IP families. Headless services may change them freely.
func checkFamilyChange(s, old *corev1.Service) field.ErrorList {
	if isHeadless(s) || isHeadless(old) {
		return nil
	}
	first := field.NewPath("spec", "ipFamilies").Index(0)
	// kube-apiserver reports the first one, whichever has changed.
	return checkPairChange(s, s.Spec.IPFamilies, old.Spec.IPFamilies, "ipFamily", func(int) *field.Path { return first })
}

// checkPairChange allows only that the second of at most two values is added or removed.
func checkPairChange[T comparable](s *corev1.Service, now, was []T, what string, at func(i int) *field.Path) (errs field.ErrorList) {
	check := func(i int) {
		if now[i] != was[i] {
			errs = append(errs, field.Invalid(at(i), now, onceSet))
		}
	}
	switch {
	case len(now) == len(was):
		for i := range was {
			check(i)
		}
	case len(now) == 0:
		errs = append(errs, field.Invalid(at(0), now, "primary "+what+" can not be unset"))
	case len(now) < len(was):
		check(0)
		errs = append(errs, mustBeSingle(s, what)...)
	case len(was) > 0:
		check(0)
	}
	return errs
}

func mustBeSingle(s *corev1.Service, what string) field.ErrorList {
	p := s.Spec.IPFamilyPolicy
	if p != nil && *p == corev1.IPFamilyPolicySingleStack {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), p,
		fmt.Sprintf("must be set to 'SingleStack' when releasing the secondary %s", what))}
}

func checkServiceStatus(s, old *corev1.Service) field.ErrorList {
	path := field.NewPath("status", "loadBalancer", "ingress")
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		if len(s.Status.LoadBalancer.Ingress) == 0 {
			return nil
		}
		return field.ErrorList{field.Forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")}
	}
	var known []string
	for _, in := range old.Status.LoadBalancer.Ingress {
		known = append(known, in.IP)
	}
	var errs field.ErrorList
	for i := range s.Status.LoadBalancer.Ingress {
		in, at := &s.Status.LoadBalancer.Ingress[i], path.Index(i)
		if in.IP != "" {
			errs = append(errs, check.IP(in.IP, at.Child("ip"), known)...)
		}
		errs = append(errs, checkIPMode(in, at.Child("ipMode"))...)
		if in.Hostname != "" {
			errs = append(errs, checkHostname(in.Hostname, at.Child("hostname"))...)
		}
	}
	return errs
}

func checkIPMode(in *corev1.LoadBalancerIngress, path *field.Path) field.ErrorList {
	switch {
	case in.IP != "" && in.IPMode == nil:
		return field.ErrorList{field.Required(path, "must be specified when `ip` is set")}
	case in.IPMode == nil:
		return nil
	case in.IP == "":
		return field.ErrorList{field.Forbidden(path, "may not be specified when `ip` is not set")}
	}
	return check.OneOf(*in.IPMode, path, corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP)
}

func checkHostname(name string, path *field.Path) field.ErrorList {
	errs := check.Subdomain(name, path)
	if netutils.ParseIPSloppy(name) != nil {
		errs = append(errs, field.Invalid(path, name, "must be a DNS name, not an IP address"))
	}
	return errs
}

func serviceWarnings(s, _ *corev1.Service) []string {
	var out []string
	path := field.NewPath("spec")
	if _, there := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]; there {
		out = append(out, fmt.Sprintf("annotation %s is deprecated, please use %s instead",
			corev1.DeprecatedAnnotationTopologyAwareHints, corev1.AnnotationTopologyMode))
	}
	headless := isHeadless(s)
	for i, ip := range s.Spec.ClusterIPs {
		if !headless {
			out = append(out, validation.GetWarningsForIP(path.Child("clusterIPs").Index(i), ip)...)
		}
	}
	note := func(is bool, text string) {
		if is {
			out = append(out, text)
		}
	}
	note(headless && s.Spec.LoadBalancerIP != "", "spec.loadBalancerIP is ignored for headless services")
	note(headless && len(s.Spec.ExternalIPs) > 0, "spec.externalIPs is ignored for headless services")
	note(headless && s.Spec.SessionAffinity != corev1.ServiceAffinityNone, "spec.SessionAffinity is ignored for headless services")
	note(!headless && s.Spec.Type != corev1.ServiceTypeExternalName && len(s.Spec.ExternalIPs) > 0,
		"spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	for i, ip := range s.Spec.ExternalIPs {
		out = append(out, validation.GetWarningsForIP(path.Child("externalIPs").Index(i), ip)...)
	}
	if s.Spec.LoadBalancerIP != "" {
		out = append(out, validation.GetWarningsForIP(path.Child("loadBalancerIP"), s.Spec.LoadBalancerIP)...)
	}
	for i, r := range s.Spec.LoadBalancerSourceRanges {
		out = append(out, validation.GetWarningsForCIDR(path.Child("loadBalancerSourceRanges").Index(i), r)...)
	}
	note(s.Spec.Type == corev1.ServiceTypeExternalName && len(s.Spec.ExternalIPs) > 0,
		`spec.externalIPs is ignored when spec.type is "ExternalName"`)
	note(s.Spec.Type != corev1.ServiceTypeExternalName && s.Spec.ExternalName != "",
		`spec.externalName is ignored when spec.type is not "ExternalName"`)
	return out
}
