package policies

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/watchlist"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/network/pods"
	"github.com/millrace/millrace/loop"
)

// pod is the part of a Pod that policies need.
type pod struct {
	namespace, name, node string
	uid                   string // empty: the mirror of a static pod, which has another UID on its node
	hostNetwork           bool
	labels                labels.Set
	addresses             []netip.Addr // none if the pod has ended, has no address yet, or uses its node's network
	ports                 []namedPort
}

// namedPort is a named port of a container.
type namedPort struct {
	name     string
	protocol uint8
	number   uint16
}

func podOf(p *corev1.Pod) *pod {
	out := &pod{namespace: p.Namespace, name: p.Name, node: p.Spec.NodeName, uid: string(p.UID), hostNetwork: p.Spec.HostNetwork, labels: p.Labels}
	if _, is := p.Annotations[corev1.MirrorPodAnnotationKey]; is { // only nodes can make one
		out.uid = ""
	}
	if out.hostNetwork {
		return out
	}
	if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
		for _, ip := range p.Status.PodIPs {
			if a, err := netip.ParseAddr(ip.IP); err == nil {
				out.addresses = append(out.addresses, a)
			}
		}
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		for _, port := range c.Ports {
			if port.Name != "" {
				out.ports = append(out.ports, namedPort{port.Name, protocolNumber(port.Protocol), uint16(port.ContainerPort)})
			}
		}
	}
	return out
}

func (p *pod) same(other *pod) bool {
	return p.node == other.node && p.uid == other.uid && maps.Equal(p.labels, other.labels) && slices.Equal(p.addresses, other.addresses) && slices.Equal(p.ports, other.ports)
}

// Protocol numbers in packets.
const (
	tcp  = 6
	udp  = 17
	sctp = 132
)

func protocolNumber(p corev1.Protocol) uint8 {
	switch cmp.Or(p, corev1.ProtocolTCP) {
	case corev1.ProtocolUDP:
		return udp
	case corev1.ProtocolSCTP:
		return sctp
	}
	return tcp
}

// namespace is the part of a Namespace that policies need.
type namespace struct{ labels labels.Set }

func namespaceOf(n *corev1.Namespace) *namespace { return &namespace{n.Labels} }

// view has the informers that the agent reads.
type view struct {
	policies   *informer.Shared[*networkingv1.NetworkPolicy]
	pods       *informer.Shared[*pod]
	namespaces *informer.Shared[*namespace]
}

func newView(c *loop.Clients) view {
	paged := watchlist.DoesClientNotSupportWatchListSemantics(c.Kube)
	return view{
		policies: loop.Informer(c, informer.For(c.Kube.NetworkingV1().NetworkPolicies(""))),
		pods: informer.ShareProjection(c.Informers, informer.For(c.Kube.CoreV1().Pods("")), podOf, informer.Options[*pod]{
			Name: "policy pods", Logger: c.Log, DisableStreaming: paged,
		}),
		namespaces: informer.ShareProjection(c.Informers, informer.For(c.Kube.CoreV1().Namespaces()), namespaceOf, informer.Options[*namespace]{
			Name: "policy namespaces", Logger: c.Log, DisableStreaming: paged,
		}),
	}
}

// pod returns a pod by its name, or nil.
func (v view) pod(namespace, name string) *pod {
	p, ok := v.pods.Get(namespace, name)
	if !ok {
		return nil
	}
	return p
}

// give puts the addresses that a node's plugin has given in place of those that the API has for the node's pods: they
// are earlier, and they are true as long as the pod has them, whatever its status says. No other pod has them, whatever
// another node says. It returns the addresses whose pods are known. A pod of the same name that was there before is
// another one.
func (c *clusterState) give(node string, owners map[netip.Addr]pods.Owner, find func(namespace, name string) *pod) map[netip.Addr]bool {
	given, known := map[pods.Owner]*pod{}, map[netip.Addr]bool{}
	for a, owner := range owners {
		p := given[owner]
		if p == nil {
			shared := find(owner.Namespace, owner.Name)
			if shared == nil || shared.node != node || shared.uid != "" && shared.uid != owner.UID || shared.hostNetwork {
				continue
			}
			own := *shared
			own.addresses = nil
			p, given[owner] = &own, &own
		}
		p.addresses, known[a] = append(p.addresses, a), true
	}
	replaced := map[string]bool{}
	for _, p := range given {
		replaced[p.namespace+"/"+p.name] = true
	}
	for namespace, list := range c.pods {
		c.pods[namespace] = withoutGiven(list, node, owners, replaced)
	}
	for _, p := range given {
		slices.SortFunc(p.addresses, netip.Addr.Compare)
		c.pods[p.namespace] = append(c.pods[p.namespace], p)
	}
	return known
}

// withoutGiven returns the pods of a namespace without those that have got addresses, and without given addresses of
// the others.
func withoutGiven(list []*pod, node string, owners map[netip.Addr]pods.Owner, replaced map[string]bool) []*pod {
	isGiven := func(a netip.Addr) bool { _, is := owners[a]; return is }
	var out []*pod
	for _, p := range list {
		if p.node == node && replaced[p.namespace+"/"+p.name] {
			continue
		}
		if slices.ContainsFunc(p.addresses, isGiven) {
			own := *p // informers share theirs
			own.addresses = slices.DeleteFunc(slices.Clone(p.addresses), isGiven)
			p = &own
		}
		if len(p.addresses) > 0 {
			out = append(out, p)
		}
	}
	return out
}

// clusterState is the state of the informers at one moment.
type clusterState struct {
	policies   []*networkingv1.NetworkPolicy // sorted by namespace and name
	pods       map[string][]*pod             // by namespace
	namespaces map[string]labels.Set
}

func (v view) clusterState() *clusterState {
	w := &clusterState{pods: map[string][]*pod{}, namespaces: map[string]labels.Set{}}
	for p := range v.policies.List() {
		w.policies = append(w.policies, p)
	}
	slices.SortFunc(w.policies, func(a, b *networkingv1.NetworkPolicy) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for p := range v.pods.List() {
		if len(p.addresses) > 0 {
			w.pods[p.namespace] = append(w.pods[p.namespace], p)
		}
	}
	for key, n := range v.namespaces.Snapshot().All() {
		w.namespaces[key.Name] = n.labels
	}
	return w
}
