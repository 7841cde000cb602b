package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// prepareServiceUpdate restores values that the server has allocated, if an update omits them. If the type changes, it
// removes the values of the old type.
func prepareServiceUpdate(s, old *corev1.Service) {
	keepAllocated(s, old)
	normalizeClusterIPs(s, old)
	dropWhatTheTypeLost(&s.Spec, &old.Spec)
}

func keepAllocated(s, old *corev1.Service) {
	spec, was := &s.Spec, &old.Spec
	if needsClusterIP(spec.Type) && needsClusterIP(was.Type) {
		if spec.ClusterIP == "" {
			spec.ClusterIP = was.ClusterIP
		}
		if len(spec.ClusterIPs) == 0 && spec.ClusterIP == was.ClusterIP {
			spec.ClusterIPs = slices.Clone(was.ClusterIPs)
		}
	}
	if needsClusterIP(spec.Type) && needsClusterIP(was.Type) {
		keepFamilies(spec, was)
	}
	if needsNodePort(spec.Type) && needsNodePort(was.Type) {
		keepNodePorts(spec, was)
	}
	if needsHealthCheckPort(spec) && needsHealthCheckPort(was) {
		fill(&spec.HealthCheckNodePort, was.HealthCheckNodePort)
	}
}

// keepFamilies keeps the IP families of a service if the update does not set them.
func keepFamilies(spec, was *corev1.ServiceSpec) {
	if spec.IPFamilyPolicy == nil && slices.Equal(spec.ClusterIPs, was.ClusterIPs) {
		spec.IPFamilyPolicy = was.IPFamilyPolicy
	}
	if len(spec.IPFamilies) == 0 && len(spec.ClusterIPs) == len(was.ClusterIPs) {
		spec.IPFamilies = slices.Clone(was.IPFamilies)
	}
}

type portKey struct {
	protocol corev1.Protocol
	port     int32
}

func keepNodePorts(spec, was *corev1.ServiceSpec) {
	before, wanted := map[portKey]int32{}, map[int32]bool{}
	for _, p := range was.Ports {
		before[portKey{p.Protocol, p.Port}] = p.NodePort
	}
	for _, p := range spec.Ports {
		wanted[p.NodePort] = true
	}
	for i := range spec.Ports {
		p := &spec.Ports[i]
		if n := before[portKey{p.Protocol, p.Port}]; p.NodePort == 0 && !wanted[n] {
			p.NodePort = n
			wanted[n] = true
		}
	}
}

// normalizeClusterIPs keeps clusterIP and clusterIPs in step; if they differ, the one that has changed wins.
func normalizeClusterIPs(s, old *corev1.Service) {
	spec := &s.Spec
	if old == nil {
		if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = []string{spec.ClusterIP}
		}
		return
	}
	was := &old.Spec
	one, many := spec.ClusterIP != was.ClusterIP, !slices.Equal(spec.ClusterIPs, was.ClusterIPs)
	if !one || many {
		return
	}
	if spec.ClusterIP == "" {
		spec.ClusterIPs = nil
	} else {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
}

func dropWhatTheTypeLost(spec, was *corev1.ServiceSpec) {
	if needsClusterIP(was.Type) && !needsClusterIP(spec.Type) {
		dropAddresses(spec, was)
	}
	if needsNodePort(was.Type) && !needsNodePort(spec.Type) && sameNodePorts(spec, was) {
		for i := range spec.Ports {
			spec.Ports[i].NodePort = 0
		}
	}
	if needsHealthCheckPort(was) && !needsHealthCheckPort(spec) && spec.HealthCheckNodePort == was.HealthCheckNodePort {
		spec.HealthCheckNodePort = 0
	}
	if was.Type == corev1.ServiceTypeLoadBalancer && spec.Type != corev1.ServiceTypeLoadBalancer {
		drop(&spec.AllocateLoadBalancerNodePorts, was.AllocateLoadBalancerNodePorts)
		drop(&spec.LoadBalancerClass, was.LoadBalancerClass)
	}
	if reachableFromOutside(was) && !reachableFromOutside(spec) && spec.ExternalTrafficPolicy == was.ExternalTrafficPolicy {
		spec.ExternalTrafficPolicy = ""
	}
	if needsClusterIP(was.Type) && !needsClusterIP(spec.Type) {
		drop(&spec.InternalTrafficPolicy, was.InternalTrafficPolicy)
	}
}

func dropAddresses(spec, was *corev1.ServiceSpec) {
	if spec.ClusterIP == was.ClusterIP && slices.Equal(spec.ClusterIPs, was.ClusterIPs) {
		spec.ClusterIP, spec.ClusterIPs = "", nil
	}
	if slices.Equal(spec.IPFamilies, was.IPFamilies) {
		spec.IPFamilies = nil
	}
	drop(&spec.IPFamilyPolicy, was.IPFamilyPolicy)
}

// drop removes a value that has not changed.
func drop[T comparable](now **T, was *T) {
	if *now != nil && was != nil && **now == *was {
		*now = nil
	}
}

func sameNodePorts(spec, was *corev1.ServiceSpec) bool {
	all := func(s *corev1.ServiceSpec) map[int32]bool {
		m := map[int32]bool{}
		for _, p := range s.Ports {
			if p.NodePort != 0 {
				m[p.NodePort] = true
			}
		}
		return m
	}
	now, before := all(spec), all(was)
	for n := range now {
		if !before[n] {
			return false
		}
	}
	return len(now) == len(before)
}
