package policies

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestBlocksLoseTheirExceptions(t *testing.T) {
	for _, c := range []struct {
		block      string
		exceptions []string
		in, out    []string
	}{
		{"10.0.0.0/8", nil, []string{"10.0.0.0", "10.255.255.255"}, []string{"9.255.255.255", "11.0.0.0"}},
		{"10.0.0.0/8", []string{"10.1.0.0/16", "10.255.255.255/32"}, []string{"10.0.255.255", "10.2.0.0", "10.255.255.254"}, []string{"10.1.0.0", "10.1.255.255", "10.255.255.255"}},
		{"10.0.0.0/24", []string{"10.0.0.0/24"}, nil, []string{"10.0.0.1"}},
		{"0.0.0.0/0", []string{"128.0.0.0/1"}, []string{"1.2.3.4"}, []string{"128.0.0.0", "255.255.255.255"}},
		{"fd00::/64", []string{"fd00::1/128"}, []string{"fd00::", "fd00::2"}, []string{"fd00::1", "fd00:0:0:1::"}},
	} {
		got := blocksOf(&networkingv1.IPBlock{CIDR: c.block, Except: c.exceptions})
		holds := func(text string) bool {
			return slices.ContainsFunc(got, func(p netip.Prefix) bool { return p.Contains(netip.MustParseAddr(text)) })
		}
		for _, a := range c.in {
			if !holds(a) {
				t.Errorf("%s without %v lacks %s: %v", c.block, c.exceptions, a, got)
			}
		}
		for _, a := range c.out {
			if holds(a) {
				t.Errorf("%s without %v holds %s: %v", c.block, c.exceptions, a, got)
			}
		}
	}
}

func TestRangesOfPortsAreJoined(t *testing.T) {
	got := merged([]portRange{{udp, 5, 5}, {tcp, 80, 90}, {tcp, 85, 100}, {tcp, 101, 101}, {tcp, 200, 200}, {tcp, 200, 200}, {tcp, 0, 3}, {udp, 0, 65535}})
	want := []portRange{{tcp, 0, 3}, {tcp, 80, 101}, {tcp, 200, 200}, {udp, 0, 65535}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func policy(name string, spec networkingv1.NetworkPolicySpec) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: spec}
}

func selects(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func small(node, name, address string, ports ...namedPort) *pod {
	return &pod{namespace: "ns", name: name, node: node, labels: labels.Set{"app": name}, addresses: []netip.Addr{netip.MustParseAddr(address)}, ports: ports}
}

func TestPoliciesOfOtherNodesLeaveNothing(t *testing.T) {
	w := &clusterState{
		policies:   []*networkingv1.NetworkPolicy{policy("deny", networkingv1.NetworkPolicySpec{})},
		pods:       map[string][]*pod{"ns": {small("there", "web", "10.0.0.1")}},
		namespaces: map[string]labels.Set{"ns": nil},
	}
	if got := compile(w, "here")[0]; len(got.podAddresses)+len(got.chains)+len(got.sets) != 0 {
		t.Errorf("a node without selected pods has %+v", got)
	}
	if got := compile(w, "there")[0]; len(got.podAddresses) != 1 || len(got.podChains[ingress]) != 1 || len(got.podChains[egress]) != 0 {
		t.Errorf("the pod's node has %+v", got)
	}
}

func TestNamedPortsMeanWhatTheDestinationCallsSo(t *testing.T) {
	name := intstr.FromString("web")
	ports := []networkingv1.NetworkPolicyPort{{Port: &name}}
	w := &clusterState{
		policies: []*networkingv1.NetworkPolicy{policy("p", networkingv1.NetworkPolicySpec{
			PodSelector: *selects("app", "a"), PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: ports}},
			Egress:  []networkingv1.NetworkPolicyEgressRule{{Ports: ports, To: []networkingv1.NetworkPolicyPeer{{PodSelector: selects("app", "b")}}}},
		})},
		pods: map[string][]*pod{"ns": {
			small("here", "a", "10.0.0.1", namedPort{"web", tcp, 80}), small("there", "b", "10.0.0.2", namedPort{"web", tcp, 8080}, namedPort{"web", udp, 1}),
			small("there", "c", "10.0.0.3", namedPort{"web", tcp, 9}),
		}},
		namespaces: map[string]labels.Set{"ns": nil},
	}
	var got []namedTarget
	for _, s := range compile(w, "here")[0].sets {
		got = slices.AppendSeq(got, maps.Keys(s.named))
	}
	want := map[namedTarget]bool{{netip.MustParseAddr("10.0.0.1"), tcp, 80}: true, {netip.MustParseAddr("10.0.0.2"), tcp, 8080}: true}
	if len(got) != len(want) || !want[got[0]] || !want[got[1]] {
		t.Errorf("named ports are %v, want %v", got, want)
	}
}

func TestPodsThatHaveEndedHaveNoAddress(t *testing.T) {
	p := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}}}
	if len(podOf(p).addresses) != 1 {
		t.Error("a running pod has no address")
	}
	for _, change := range []func(*corev1.Pod){
		func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, func(p *corev1.Pod) { p.Spec.HostNetwork = true },
	} {
		q := p.DeepCopy()
		change(q)
		if len(podOf(q).addresses) != 0 {
			t.Errorf("a pod has an address that is not its own any more: %+v", q.Status)
		}
	}
}
