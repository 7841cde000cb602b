package network_test

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	wire "github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/network/policies"
	"github.com/millrace/millrace/internal/network/services"
)

// All parts of the network work together on two nodes that are not on one link. The steps build on each other.
func TestTwoNodesAreOneNetwork(t *testing.T) {
	c := newCluster(t)
	near, far, other := c.pod(c.a, "near"), c.pod(c.b, "far"), c.pod(c.a, "other")

	t.Log("pods of both nodes reach each other, by their own addresses, in both families")
	for family := range near.addresses {
		c.says(near.net, at(far.addresses[family], 8080), "far for "+near.addresses[family].String())
		c.says(far.net, at(near.addresses[family], 8080), "near for "+far.addresses[family].String())
	}

	t.Log("a service leads to the other node, and the endpoint sees the pod")
	web := c.service("web", func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort }, far, c.b)
	c.says(near.net, web.Spec.ClusterIP+":80", "far for "+near.addresses[0].String())
	c.says(c.a.net, web.Spec.ClusterIP+":80", "far for "+tunnelAddress)

	t.Log("a node port leads to the other node, and the endpoint sees the node that was asked")
	c.says(c.world, c.a.address+nodePort(web), "far for "+tunnelAddress)
	c.says(c.world, c.b.address+nodePort(web), "far for "+gatewayB)

	t.Log("with the policy Local only the endpoint's node answers, and the endpoint sees the client")
	local := c.service("local", func(s *corev1.ServiceSpec) {
		s.Type, s.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
	}, far, c.b)
	c.says(c.world, c.b.address+nodePort(local), "far for 10.0.9.1")
	c.says(c.world, c.a.address+nodePort(local), "")

	t.Log("a pod resolves the service's name")
	c.resolves(near, "web.default.svc.cluster.local.", wire.TypeA, web.Spec.ClusterIP)

	t.Log("a policy admits a pod of the other node, and no other pod")
	c.allowOnly(t, "near", "far")
	for family := range near.addresses {
		c.says(other.net, at(near.addresses[family], 8080), "")
		c.says(far.net, at(near.addresses[family], 8080), "near for "+far.addresses[family].String())
	}

	t.Log("tables that were deleted by hand come back")
	c.a.net.Do(services.Remove)
	c.a.net.Do(policies.Remove)
	c.says(c.world, c.a.address+nodePort(web), "far for "+tunnelAddress)
	c.says(other.net, at(near.addresses[0], 8080), "")
	c.says(far.net, at(near.addresses[0], 8080), "near for "+far.addresses[0].String())

	t.Log("a node gets another address")
	c.move(c.b, "10.0.2.7")
	for family := range near.addresses {
		c.says(near.net, at(far.addresses[family], 8080), "far for "+near.addresses[family].String())
		c.says(far.net, at(near.addresses[family], 8080), "near for "+far.addresses[family].String())
	}
	c.says(near.net, web.Spec.ClusterIP+":80", "far for "+near.addresses[0].String())
	c.says(c.world, c.b.address+nodePort(local), "far for 10.0.9.1")
}

const (
	// tunnelAddress is the address of node a's end of the tunnel.
	tunnelAddress = "10.244.1.0"
	// gatewayB is the address that node b has for its own pods.
	gatewayB = "10.244.2.1"
)

func nodePort(s *corev1.Service) string { return ":" + strconv.Itoa(int(s.Spec.Ports[0].NodePort)) }

// resolves asks the cluster's DNS server from a pod.
func (c *cluster) resolves(p *pod, name string, kind uint16, want string) {
	c.Helper()
	c.eventually(name+" has the address "+want, func() string {
		var got string
		if err := p.net.Try(func() error {
			conn, err := net.Dial("udp", net.JoinHostPort(dnsAddress, "53"))
			if err != nil {
				return err
			}
			defer conn.Close()
			reply, _, err := new(wire.Client).ExchangeWithConn(new(wire.Msg).SetQuestion(name, kind), &wire.Conn{Conn: conn})
			if err != nil {
				return err
			}
			got = reply.String()
			if len(reply.Answer) == 1 && strings.HasSuffix(reply.Answer[0].String(), "\t"+want) {
				got = ""
			}
			return nil
		}); err != nil {
			return err.Error()
		}
		return got
	})
}

// allowOnly makes a policy by which one pod accepts connections only of another one.
func (c *cluster) allowOnly(t *testing.T, to, from string) {
	selects := func(app string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	}
	c.must(c.kube.NetworkingV1().NetworkPolicies("default").Create(t.Context(), &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: to},
		Spec: networkingv1.NetworkPolicySpec{PodSelector: *selects(to), Ingress: []networkingv1.NetworkPolicyIngressRule{
			{From: []networkingv1.NetworkPolicyPeer{{PodSelector: selects(from)}}},
		}},
	}, metav1.CreateOptions{}))
}

// move replaces a node's address, on its link and in the API.
func (c *cluster) move(n *node, to string) {
	c.Helper()
	n.net.Do(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		before, err := netlink.ParseAddr(n.address + "/24")
		if err != nil {
			return err
		}
		after, err := netlink.ParseAddr(to + "/24")
		if err != nil {
			return err
		}
		if err := netlink.AddrDel(link, before); err != nil { // with it go the routes over the link
			return err
		}
		return netlink.AddrAdd(link, after)
	})
	n.net.Route("0.0.0.0/0", "10.0.2.254")
	n.address = netip.MustParseAddr(to).String()
	c.setAddresses(n.name, to)
}
