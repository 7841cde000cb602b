package loadbalancer

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"k8s.io/apimachinery/pkg/util/sets"
)

// toBeDeleted is the taint of nodes that an autoscaler is about to remove.
const toBeDeleted = "ToBeDeletedByClusterAutoscaler"

// nodeView is what matters of a node.
type nodeView struct {
	Name      string
	Ready     bool
	Addresses []string // one of each family
}

// nodeViewOf returns nil for a node that no service gets the address of.
func nodeViewOf(n *corev1.Node) *nodeView {
	if n == nil || n.DeletionTimestamp != nil {
		return nil
	}
	if _, excluded := n.Labels[corev1.LabelNodeExcludeBalancers]; excluded {
		return nil
	}
	if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == toBeDeleted }) {
		return nil
	}
	p := &nodeView{Name: n.Name, Addresses: addressesOf(n)}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			p.Ready = c.Status == corev1.ConditionTrue
		}
	}
	return p
}

// addressesOf are the node's first address of each family, an external one if it has any.
func addressesOf(n *corev1.Node) []string {
	var all []string
	for _, four := range []bool{true, false} {
		for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
			i := slices.IndexFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool {
				ip, err := netip.ParseAddr(a.Address)
				return a.Type == kind && err == nil && ip.Is4() == four
			})
			if i >= 0 {
				all = append(all, n.Status.Addresses[i].Address)
				break
			}
		}
	}
	return all
}

// nodeViews are the nodes that are ready; if none is, all: somebody will get an answer when one comes back.
func (r *controller) nodeViews() []nodeView {
	var all, ready []nodeView
	for n := range r.nodes.List() {
		if p := nodeViewOf(n); p != nil {
			all = append(all, *p)
			if p.Ready {
				ready = append(ready, *p)
			}
		}
	}
	if len(ready) > 0 {
		all = ready
	}
	slices.SortFunc(all, func(a, b nodeView) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// ingress is what a service is reached by.
func (r *controller) ingress(s *corev1.Service, nodes []nodeView) []corev1.LoadBalancerIngress {
	var here sets.Set[string]
	if staysLocal(s) {
		here = r.nodesWithEndpoints(s)
	}
	mode := corev1.LoadBalancerIPModeVIP
	var all []corev1.LoadBalancerIngress
	asked := slices.ContainsFunc(nodes, func(p nodeView) bool { return slices.Contains(p.Addresses, s.Spec.LoadBalancerIP) })
	for _, family := range s.Spec.IPFamilies {
		for _, p := range nodes {
			if here != nil && !here.Has(p.Name) {
				continue
			}
			for _, a := range p.Addresses {
				if strings.Contains(a, ":") == (family == corev1.IPv6Protocol) && (!asked || a == s.Spec.LoadBalancerIP) {
					all = append(all, corev1.LoadBalancerIngress{IP: a, IPMode: &mode})
				}
			}
		}
	}
	return all
}

// nodesWithEndpoints are the nodes where a service has endpoints that are ready.
func (r *controller) nodesWithEndpoints(s *corev1.Service) sets.Set[string] {
	names := sets.New[string]()
	for slice := range r.slices.By(ofService, s.Namespace+"/"+s.Name) {
		for _, e := range slice.Endpoints {
			if e.NodeName != nil && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				names.Insert(*e.NodeName)
			}
		}
	}
	return names
}
