package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/quote"
)

func checkService(s, old *corev1.Service) field.ErrorList {
	spec, path := &s.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if len(spec.Ports) == 0 && !isHeadless(s) && spec.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, field.Required(path.Child("ports"), ""))
	}
	errs = append(errs, checkServiceKind(s, path)...)
	errs = append(errs, checkServicePorts(spec.Ports, path.Child("ports"))...)
	if spec.Selector != nil {
		errs = append(errs, metav1validation.ValidateLabels(spec.Selector, path.Child("selector"))...)
	}
	errs = append(errs, checkAffinity(spec, path)...)
	errs = append(errs, CheckClusterIPs(s, old)...)
	for i, ip := range spec.ExternalIPs {
		at := path.Child("externalIPs").Index(i)
		bad := check.IP(ip, at, oldServiceSpec(old).ExternalIPs)
		if len(bad) == 0 {
			bad = check.EndpointIP(ip, at)
		}
		errs = append(errs, bad...)
	}
	errs = append(errs, check.OneOf(spec.Type, path.Child("type"), corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName,
		corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)...)
	errs = append(errs, checkNodePorts(spec, path.Child("ports"))...)
	errs = append(errs, checkSourceRanges(s, old)...)
	if spec.AllocateLoadBalancerNodePorts != nil && spec.Type != corev1.ServiceTypeLoadBalancer {
		errs = append(errs, field.Forbidden(path.Child("allocateLoadBalancerNodePorts"), onlyLoadBalancer))
	}
	errs = append(errs, checkBalancerClass(s)...)
	return append(errs, checkTraffic(spec, path)...)
}

const onlyLoadBalancer = "may only be used when `type` is 'LoadBalancer'"

func oldServiceSpec(old *corev1.Service) corev1.ServiceSpec {
	if old == nil {
		return corev1.ServiceSpec{}
	}
	return old.Spec
}

func isHeadless(s *corev1.Service) bool {
	return len(s.Spec.ClusterIPs) == 1 && s.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

// kubeletPort must never be reachable through a load balancer.
const kubeletPort = 10250

// checkServiceKind validates what depends on the service's type.
func checkServiceKind(s *corev1.Service, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	headless := func() {
		if isHeadless(s) {
			errs = append(errs, field.Invalid(path.Child("clusterIPs").Index(0), s.Spec.ClusterIPs[0],
				fmt.Sprintf("may not be set to 'None' for %s services", s.Spec.Type)))
		}
	}
	switch s.Spec.Type {
	case corev1.ServiceTypeLoadBalancer:
		for i, p := range s.Spec.Ports {
			if p.Port == kubeletPort {
				errs = append(errs, field.Invalid(path.Child("ports").Index(i), p.Port,
					fmt.Sprintf("may not expose port %v externally since it is used by kubelet", kubeletPort)))
			}
		}
		headless()
	case corev1.ServiceTypeNodePort:
		headless()
	case corev1.ServiceTypeExternalName:
		errs = append(errs, checkExternalName(&s.Spec, path)...)
	}
	return errs
}

func checkExternalName(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	forbid := func(name string, set bool) {
		if set {
			errs = append(errs, field.Forbidden(path.Child(name), "may not be set for ExternalName services"))
		}
	}
	forbid("clusterIPs", len(spec.ClusterIPs) > 0)
	forbid("ipFamilies", len(spec.IPFamilies) > 0)
	forbid("ipFamilyPolicy", spec.IPFamilyPolicy != nil)
	if name := strings.TrimSuffix(spec.ExternalName, "."); name != "" {
		return append(errs, check.Subdomain(name, path.Child("externalName"))...)
	}
	return append(errs, field.Required(path.Child("externalName"), ""))
}

func checkServicePorts(ports []corev1.ServicePort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range ports {
		p, at := &ports[i], path.Index(i)
		switch {
		case p.Name == "" && len(ports) > 1:
			errs = append(errs, field.Required(at.Child("name"), ""))
		case p.Name != "":
			errs = append(errs, check.Label(p.Name, at.Child("name"))...)
			if names[p.Name] {
				errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
			}
			names[p.Name] = true
		}
		errs = append(errs, check.Port(p.Port, at.Child("port"))...)
		errs = append(errs, check.OneOf(p.Protocol, at.Child("protocol"), corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
		errs = append(errs, check.PortOrName(p.TargetPort, at.Child("targetPort"))...)
		if p.AppProtocol != nil {
			errs = append(errs, check.Qualified(*p.AppProtocol, at.Child("appProtocol"))...)
		}
	}
	return errs
}

// maxAffinitySeconds is one day.
const maxAffinitySeconds = 86400

func checkAffinity(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	errs := check.OneOf(spec.SessionAffinity, path.Child("sessionAffinity"), corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	path = path.Child("sessionAffinityConfig")
	c := spec.SessionAffinityConfig
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityClientIP:
		why := fmt.Sprintf("when session affinity type is %s", corev1.ServiceAffinityClientIP)
		switch {
		case c == nil:
			return append(errs, field.Required(path, why))
		case c.ClientIP == nil:
			return append(errs, field.Required(path.Child("clientIP"), why))
		case c.ClientIP.TimeoutSeconds == nil:
			return append(errs, field.Required(path.Child("clientIP", "timeoutSeconds"), why))
		}
		if n := *c.ClientIP.TimeoutSeconds; n <= 0 || n > maxAffinitySeconds {
			errs = append(errs, field.Invalid(path.Child("clientIP", "timeoutSeconds"), n,
				fmt.Sprintf("must be greater than 0 and less than %d", maxAffinitySeconds)))
		}
	case corev1.ServiceAffinityNone:
		if c != nil {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("must not be set when session affinity is %s", corev1.ServiceAffinityNone)))
		}
	}
	return errs
}

func checkNodePorts(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.Type == corev1.ServiceTypeClusterIP {
		for i, p := range spec.Ports {
			if p.NodePort != 0 {
				errs = append(errs, field.Forbidden(path.Index(i).Child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
			}
		}
	}
	seen := map[portKey]bool{}
	for i, p := range spec.Ports {
		if p.NodePort == 0 {
			continue
		}
		if key := (portKey{p.Protocol, p.NodePort}); seen[key] {
			errs = append(errs, field.Duplicate(path.Index(i).Child("nodePort"), p.NodePort))
		} else {
			seen[key] = true
		}
	}
	clear(seen)
	for i, p := range spec.Ports {
		key := portKey{p.Protocol, p.Port}
		if seen[key] {
			errs = append(errs, field.Duplicate(path.Index(i), quote.Of(corev1.ServicePort{Protocol: p.Protocol, Port: p.Port})))
		}
		seen[key] = true
	}
	return errs
}

func checkSourceRanges(s, old *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec", "LoadBalancerSourceRanges")
	only := func() {
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
			errs = append(errs, field.Forbidden(path, onlyLoadBalancer))
		}
	}
	if len(s.Spec.LoadBalancerSourceRanges) > 0 {
		only()
		for i, r := range s.Spec.LoadBalancerSourceRanges {
			errs = append(errs, check.CIDR(strings.TrimSpace(r), path.Index(i), oldServiceSpec(old).LoadBalancerSourceRanges)...)
		}
		return errs
	}
	ranges, there := s.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
	if !there {
		return nil
	}
	path = field.NewPath("metadata", "annotations").Key(corev1.AnnotationLoadBalancerSourceRangesKey)
	only()
	if ranges = strings.TrimSpace(ranges); ranges != "" {
		for r := range strings.SplitSeq(ranges, ",") {
			errs = append(errs, check.CIDR(strings.TrimSpace(r), path, nil)...)
		}
	}
	return errs
}

func checkBalancerClass(s *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec", "loadBalancerClass")
	balanced := s.Spec.Type == corev1.ServiceTypeLoadBalancer
	class := s.Spec.LoadBalancerClass
	switch {
	case class == nil:
	case balanced:
		errs = append(errs, check.Qualified(*class, path)...)
	default:
		errs = append(errs, field.Forbidden(path, onlyLoadBalancer))
	}
	return errs
}

func equalPointers[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func checkTraffic(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	external := spec.ExternalTrafficPolicy
	switch at := path.Child("externalTrafficPolicy"); {
	case !reachableFromOutside(spec):
		if external != "" {
			errs = append(errs, field.Invalid(at, external, "may only be set for externally-accessible services"))
		}
	case external == "":
		errs = append(errs, field.Required(at, ""))
	default:
		errs = append(errs, check.OneOf(external, at, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)...)
	}
	// If it is needed and missing, the registry allocates one.
	if n := spec.HealthCheckNodePort; n != 0 {
		at := path.Child("healthCheckNodePort")
		if needsHealthCheckPort(spec) {
			errs = append(errs, check.Port(n, at)...)
		} else {
			errs = append(errs, field.Invalid(at, n, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
		}
	}
	if p := spec.InternalTrafficPolicy; p != nil {
		errs = append(errs, check.OneOf(*p, path.Child("internalTrafficPolicy"), corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)...)
	}
	if d := spec.TrafficDistribution; d != nil {
		errs = append(errs, check.OneOf(*d, path.Child("trafficDistribution"), corev1.ServiceTrafficDistributionPreferClose,
			corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)...)
	}
	return errs
}
