//go:build linux

package services

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vishvananda/netlink"

	"github.com/millrace/millrace/internal/network/nft"
)

// onNodeAddress creates a service whose load balancer is the node itself.
func (s *stage) onNodeAddress(name, address string, change func(*corev1.ServiceSpec)) {
	s.Helper()
	balanced := svc(name, address, change)
	balanced.Spec.Type = corev1.ServiceTypeLoadBalancer
	balanced.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: nodeAddress}}
	s.create(balanced)
}

func TestALoadBalancerCanBeTheNodesOwnAddress(t *testing.T) {
	s := newStage(t, Options{ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}})
	s.onNodeAddress("web", "10.96.0.1", nil)
	s.create(slc("web", corev1.ProtocolTCP, on("here", podA), on("there", podFar)))
	s.onNodeAddress("local", "10.96.0.2", func(p *corev1.ServiceSpec) {
		p.Ports[0].Port, p.ExternalTrafficPolicy = 81, corev1.ServiceExternalTrafficPolicyLocal
	})
	s.create(slc("local", corev1.ProtocolTCP, on("here", podB), on("there", podFar)))
	s.onNodeAddress("guarded", "10.96.0.3", func(p *corev1.ServiceSpec) {
		p.Ports[0].Port, p.LoadBalancerSourceRanges = 82, []string{"10.9.0.0/24"}
	})
	s.create(slc("guarded", corev1.ProtocolTCP, on("here", podA)))
	s.onNodeAddress("sticky", "10.96.0.4", func(p *corev1.ServiceSpec) {
		p.Ports[0].Port, p.SessionAffinity = 83, corev1.ServiceAffinityClientIP
	})
	s.create(slc("sticky", corev1.ProtocolTCP, on("here", podA), on("here", podB)))

	s.comes(s.client, nodeAddress+":80", "an answer")
	if got := s.among(s.client, nodeAddress+":80"); got[podA] == 0 || got[podFar] == 0 {
		t.Errorf("40 connections went to %v", got)
	}
	s.comes(s.client, nodeAddress+":81", podB+" for "+clientAddress)
	s.comes(s.client, nodeAddress+":82", "nothing")
	s.comes(s.client, nodeAddress+":83", "an answer")
	if got := s.among(s.client, nodeAddress+":83"); len(got) != 1 {
		t.Errorf("40 connections of one client went to %v", got)
	}
	s.comes(s.client, nodeAddress+":84", "refused")
	s.comes(s.pods[podB], nodeAddress+":80", "an answer")
	s.comes(s.node, nodeAddress+":80", "an answer")
}

func TestNodePortsFollowTheNodesAddress(t *testing.T) {
	const moved = "10.0.0.7"
	s := newStage(t, Options{})
	s.create(svc("web", "10.96.0.1", func(p *corev1.ServiceSpec) { p.Type, p.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30080 }))
	s.create(slc("web", corev1.ProtocolTCP, on("here", podA)))
	s.comes(s.client, nodeAddress+":30080", "an answer")
	s.node.Do(func() error {
		link, err := netlink.LinkByName("client")
		if err != nil {
			return err
		}
		address, err := netlink.ParseAddr(moved + "/24")
		if err != nil {
			return err
		}
		return netlink.AddrAdd(link, address)
	})
	node, err := s.kube.CoreV1().Nodes().Get(t.Context(), "here", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Addresses[0].Address = moved
	if _, err := s.kube.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.comes(s.client, moved+":30080", "an answer")
	s.comes(s.client, nodeAddress+":30080", "refused")
}

func TestAThousandChangesOfEndpointsAreFollowed(t *testing.T) {
	s := newStage(t, Options{})
	s.create(svc("web", "10.96.0.1", nil))
	s.create(slc("web", corev1.ProtocolTCP, on("here", podA)))
	s.comes(s.client, "10.96.0.1:80", "an answer")
	for i := range 1000 {
		endpoints := slc("web", corev1.ProtocolTCP, on("here", podA), on("here", podB))
		if i%2 == 0 {
			endpoints = slc("web", corev1.ProtocolTCP, on("here", podB))
		}
		if i == 999 {
			endpoints = slc("web", corev1.ProtocolTCP, on("there", podFar))
		}
		if _, err := s.kube.DiscoveryV1().EndpointSlices("ns").Update(t.Context(), endpoints, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.comes(s.client, "10.96.0.1:80", podFar+" for "+clientAddress)
	if n := s.endpoints("web"); n != 1 {
		t.Errorf("the kernel has %d endpoints", n)
	}
}

// While no proxy runs, the tables stay unchanged; the next proxy writes what has changed meanwhile.
func TestServicesOutliveTheirProxy(t *testing.T) {
	s := newStage(t, Options{})
	s.stop()
	stop := s.start(Options{Node: "here"})
	s.create(svc("web", "10.96.0.1", nil))
	s.create(slc("web", corev1.ProtocolTCP, on("here", podA)))
	s.comes(s.client, "10.96.0.1:80", "an answer")
	stop()
	if got := s.get(s.client, "10.96.0.1:80"); got != podA+" for "+clientAddress {
		t.Errorf("without a proxy it answers %q", got)
	}
	if _, err := s.kube.DiscoveryV1().EndpointSlices("ns").Update(t.Context(), slc("web", corev1.ProtocolTCP, on("here", podB)), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.start(Options{Node: "here"})
	s.comes(s.client, "10.96.0.1:80", podB+" for "+clientAddress)
}

// A deleted part of the tables comes back even if the API does not answer.
func TestTablesComeBackWhileTheAPIIsAway(t *testing.T) {
	s := newStage(t, Options{})
	s.create(svc("web", "10.96.0.1", nil))
	s.create(slc("web", corev1.ProtocolTCP, on("here", podA)))
	s.comes(s.client, "10.96.0.1:80", "an answer")
	s.away()
	for range 6 { // each change comes right after a write
		s.node.Do(func() error {
			conn, err := nft.Dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			var b nft.Batch
			b.FlushChain(family{}.table(), chainServices)
			return conn.Commit(&b)
		})
		s.comes(s.client, "10.96.0.1:80", podA+" for "+clientAddress)
		s.node.Do(Remove)
		s.comes(s.client, "10.96.0.1:80", podA+" for "+clientAddress)
	}
}

// Each transaction is one generation. So a proxy knows which one is its own, and sees that somebody else wrote right
// after it.
func TestATransactionIsOneGeneration(t *testing.T) {
	s := newStage(t, Options{})
	s.stop()
	before := s.generation()
	s.node.Do(func() error {
		conn, err := nft.Dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		var b nft.Batch
		f := family{name: "millrace-generation"}
		f.build(&b)
		b.DeleteTable(f.table())
		return conn.Commit(&b)
	})
	if now := s.generation(); now != nft.Next(before) {
		t.Errorf("the generation went from %d to %d", before, now)
	}
}
