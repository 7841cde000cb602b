package network_test

import (
	"net"
	"testing"

	wire "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
)

// Services with IPv6 addresses lead from one node to the other, alone and beside IPv4, and so do their node ports.
func TestServicesOfBothFamiliesLeadToTheOtherNode(t *testing.T) {
	c := newCluster(t)
	near, far := c.pod(c.a, "near"), c.pod(c.b, "far")
	four, six := near.addresses[0].String(), near.addresses[1].String()

	t.Log("nodes that have IPv4 addresses alone: services of IPv6 work over the tunnel of IPv4")
	single := c.service("single", func(s *corev1.ServiceSpec) {
		s.Type, s.IPFamilies = corev1.ServiceTypeNodePort, []corev1.IPFamily{corev1.IPv6Protocol}
	}, far, c.b)
	c.says(near.net, clusterIP(single, 0), "far for "+six)
	c.says(c.a.net, clusterIP(single, 0), "far for "+tunnelAddress6)

	t.Log("a service of both families leads to the endpoint of the family")
	dual := c.service("dual", func(s *corev1.ServiceSpec) {
		s.Type, s.IPFamilyPolicy = corev1.ServiceTypeNodePort, new(corev1.IPFamilyPolicyRequireDualStack)
	}, far, c.b)
	c.says(near.net, clusterIP(dual, 0), "far for "+four)
	c.says(near.net, clusterIP(dual, 1), "far for "+six)

	t.Log("a pod resolves the addresses of both families")
	c.resolves(near, "dual.default.svc.cluster.local.", wire.TypeA, dual.Spec.ClusterIPs[0])
	c.resolves(near, "dual.default.svc.cluster.local.", wire.TypeAAAA, dual.Spec.ClusterIPs[1])
	c.resolves(near, "single.default.svc.cluster.local.", wire.TypeAAAA, single.Spec.ClusterIP)

	t.Log("the nodes get IPv6 addresses: their node ports answer there")
	for _, n := range []*node{c.a, c.b} {
		c.setAddresses(n.name, n.address, n.address6)
	}
	for _, s := range []*corev1.Service{single, dual} {
		c.says(c.world, "["+c.a.address6+"]"+nodePort(s), "far for "+tunnelAddress6)
		c.says(c.world, "["+c.b.address6+"]"+nodePort(s), "far for "+gatewayB6)
	}
	c.says(c.world, c.a.address+nodePort(dual), "far for "+tunnelAddress)
	c.says(c.world, c.a.address+nodePort(single), "")

	t.Log("with the policy Local only the endpoint's node answers, and the endpoint sees the client")
	local := c.service("local", func(s *corev1.ServiceSpec) {
		s.Type, s.IPFamilyPolicy = corev1.ServiceTypeNodePort, new(corev1.IPFamilyPolicyRequireDualStack)
		s.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}, far, c.b)
	c.says(c.world, "["+c.b.address6+"]"+nodePort(local), "far for fd00:9::1")
	c.says(c.world, c.b.address+nodePort(local), "far for 10.0.9.1")
	c.says(c.world, "["+c.a.address6+"]"+nodePort(local), "")

	t.Log("services and pods still answer")
	c.says(near.net, clusterIP(single, 0), "far for "+six)
	c.says(near.net, clusterIP(dual, 0), "far for "+four)
	c.says(near.net, clusterIP(dual, 1), "far for "+six)
	for family := range near.addresses {
		c.says(far.net, at(near.addresses[family], 8080), "near for "+far.addresses[family].String())
	}
}

// The IPv6 addresses of node a's end of the tunnel, and of node b for its own pods.
const (
	tunnelAddress6 = "fd01:1::"
	gatewayB6      = "fd01:2::1"
)

// clusterIP is where a service with a cluster IP listens.
func clusterIP(s *corev1.Service, number int) string {
	return net.JoinHostPort(s.Spec.ClusterIPs[number], "80")
}
