package policies

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// compile returns the wanted tables of a node, by family: IPv4, then IPv6.
func compile(w *clusterState, node string) [2]*wanted {
	c := &compiler{clusterState: w, out: [2]*wanted{newWanted(), newWanted()}}
	isolated := map[*pod][2][]string{}
	for _, policy := range w.policies {
		selected := c.selected(policy, node)
		if len(selected) == 0 {
			continue
		}
		for d, on := range directions(policy) {
			if !on {
				continue
			}
			name := c.policy(policy, direction(d), selected)
			for _, p := range selected {
				chains := isolated[p]
				chains[d] = append(chains[d], name)
				isolated[p] = chains
			}
		}
	}
	for p, chains := range isolated {
		c.addPodChain(p, chains)
	}
	return c.out
}

type compiler struct {
	*clusterState
	out [2]*wanted
}

// directions returns the directions to which a policy applies.
func directions(policy *networkingv1.NetworkPolicy) [2]bool {
	types := policy.Spec.PolicyTypes
	if len(types) == 0 {
		return [2]bool{true, len(policy.Spec.Egress) > 0}
	}
	return [2]bool{slices.Contains(types, networkingv1.PolicyTypeIngress), slices.Contains(types, networkingv1.PolicyTypeEgress)}
}

// selector converts a selector. An invalid one, which the API does not accept, selects nothing.
func selector(s *metav1.LabelSelector) labels.Selector {
	out, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	return out
}

// selected returns the pods of the node that a policy selects.
func (c *compiler) selected(policy *networkingv1.NetworkPolicy, node string) []*pod {
	var out []*pod
	matches := selector(&policy.Spec.PodSelector)
	for _, p := range c.pods[policy.Namespace] {
		if p.node == node && matches.Matches(p.labels) {
			out = append(out, p)
		}
	}
	return out
}

func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// policy makes the chain for one direction of a policy, and returns its name.
func (c *compiler) policy(policy *networkingv1.NetworkPolicy, d direction, selected []*pod) string {
	name := chainName(d, "policy", policy.Namespace+"/"+policy.Name)
	chains := [2]chain{{direction: d}, {direction: d}}
	for i, r := range rulesOf(policy, d) {
		c.rule(&chains, name+"-"+strconv.Itoa(i), policy.Namespace, r, selected)
	}
	for f, chain := range chains {
		c.out[f].chains[name] = chain
	}
	return name
}

// peersAndPorts is an ingress or egress rule.
type peersAndPorts struct {
	peers []networkingv1.NetworkPolicyPeer
	ports []networkingv1.NetworkPolicyPort
}

func rulesOf(policy *networkingv1.NetworkPolicy, d direction) []peersAndPorts {
	var out []peersAndPorts
	if d == ingress {
		for _, r := range policy.Spec.Ingress {
			out = append(out, peersAndPorts{r.From, r.Ports})
		}
		return out
	}
	for _, r := range policy.Spec.Egress {
		out = append(out, peersAndPorts{r.To, r.Ports})
	}
	return out
}

// rule adds one rule of a policy to its chains: each kind of peers with each kind of ports.
func (c *compiler) rule(chains *[2]chain, name, namespace string, r peersAndPorts, selected []*pod) {
	pods, blocks := c.peers(namespace, r.peers)
	ports, named := portsOf(r.ports)
	targets := c.targets(named, chains[ingress].direction, selected, pods, len(r.peers) == 0)
	for f := range chains {
		peers := []string{""}
		if len(r.peers) > 0 {
			peers = c.peerSets(f, name, pods, blocks)
		}
		for _, p := range peers {
			if len(r.ports) == 0 {
				chains[f].rules = append(chains[f].rules, rule{peers: p})
			}
			if len(ports) > 0 {
				c.out[f].sets[name+"-ports"] = set{kind: ofPorts, ports: ports}
				chains[f].rules = append(chains[f].rules, rule{peers: p, ports: name + "-ports"})
			}
			if len(named) > 0 {
				c.out[f].sets[name+"-named"] = set{kind: ofNamed, named: targets[f]}
				chains[f].rules = append(chains[f].rules, rule{peers: p, named: name + "-named"})
			}
		}
	}
}

// peerSets makes the sets of peers of one family, and returns their names.
func (c *compiler) peerSets(f int, name string, pods map[*pod]bool, blocks []netip.Prefix) []string {
	var names []string
	if pods != nil {
		s := set{kind: ofAddresses, addresses: map[netip.Addr]bool{}}
		for p := range pods {
			for _, a := range p.addresses {
				if family(a) == f {
					s.addresses[a] = true
				}
			}
		}
		c.out[f].sets[name+"-pods"] = s
		names = append(names, name+"-pods")
	}
	s := set{kind: ofBlocks}
	for _, b := range blocks {
		if family(b.Addr()) == f {
			s.blocks = append(s.blocks, b)
		}
	}
	if s.blocks != nil {
		c.out[f].sets[name+"-blocks"] = s
		names = append(names, name+"-blocks")
	}
	return names
}

// peers returns the pods that a rule's peers select (nil: none of the peers is a selector), and their blocks.
func (c *compiler) peers(own string, all []networkingv1.NetworkPolicyPeer) (pods map[*pod]bool, blocks []netip.Prefix) {
	for _, peer := range all {
		if b := peer.IPBlock; b != nil {
			blocks = append(blocks, blocksOf(b)...)
			continue
		}
		if pods == nil {
			pods = map[*pod]bool{}
		}
		matches := labels.Everything()
		if peer.PodSelector != nil {
			matches = selector(peer.PodSelector)
		}
		for _, namespace := range c.namespacesOf(own, peer.NamespaceSelector) {
			for _, p := range c.pods[namespace] {
				if matches.Matches(p.labels) {
					pods[p] = true
				}
			}
		}
	}
	return pods, blocks
}

func (c *compiler) namespacesOf(own string, s *metav1.LabelSelector) []string {
	if s == nil {
		return []string{own}
	}
	var out []string
	matches := selector(s)
	for name, set := range c.namespaces {
		if matches.Matches(set) {
			out = append(out, name)
		}
	}
	return out
}

func blocksOf(b *networkingv1.IPBlock) []netip.Prefix {
	block, err := netip.ParsePrefix(b.CIDR)
	if err != nil {
		return nil
	}
	var exceptions []netip.Prefix
	for _, text := range b.Except {
		if e, err := netip.ParsePrefix(text); err == nil {
			exceptions = append(exceptions, e.Masked())
		}
	}
	return without(block.Masked(), exceptions)
}

// portsOf returns the numeric ports of a rule, and the named ones.
func portsOf(all []networkingv1.NetworkPolicyPort) (ranges []portRange, named []namedPort) {
	for _, p := range all {
		protocol := uint8(tcp)
		if p.Protocol != nil {
			protocol = protocolNumber(*p.Protocol)
		}
		switch {
		case p.Port == nil:
			ranges = append(ranges, portRange{protocol, 0, 1<<16 - 1})
		case p.Port.Type == intstr.String:
			named = append(named, namedPort{name: p.Port.StrVal, protocol: protocol})
		default:
			r := portRange{protocol, uint16(p.Port.IntVal), uint16(p.Port.IntVal)}
			if p.EndPort != nil {
				r.last = max(r.first, uint16(*p.EndPort))
			}
			ranges = append(ranges, r)
		}
	}
	return merged(ranges), named
}

// targets returns the destinations of named ports, by family. The port number is that of the destination pod's port
// with this name.
func (c *compiler) targets(named []namedPort, d direction, selected []*pod, peers map[*pod]bool, all bool) [2]map[namedTarget]bool {
	out := [2]map[namedTarget]bool{{}, {}}
	if len(named) == 0 {
		return out
	}
	add := func(p *pod) {
		for _, have := range p.ports {
			if !slices.ContainsFunc(named, func(n namedPort) bool { return n.name == have.name && n.protocol == have.protocol }) {
				continue
			}
			for _, a := range p.addresses {
				out[family(a)][namedTarget{a, have.protocol, have.number}] = true
			}
		}
	}
	switch {
	case d == ingress:
		for _, p := range selected {
			add(p)
		}
	case all:
		for _, pods := range c.pods {
			for _, p := range pods {
				add(p)
			}
		}
	default:
		for p := range peers {
			add(p)
		}
	}
	return out
}

// addPodChain makes a chain for a pod that calls the chains of all its policies, and drops packets that none accepts.
// Pods with the same policies share it.
func (c *compiler) addPodChain(p *pod, policies [2][]string) {
	for d, names := range policies {
		if len(names) == 0 {
			continue
		}
		name := chainName(direction(d), "pods", strings.Join(names, " "))
		judge := chain{direction: direction(d), drop: true}
		for _, n := range names {
			judge.rules = append(judge.rules, rule{jump: n})
		}
		for _, a := range p.addresses {
			out := c.out[family(a)]
			out.chains[name], out.podChains[d][a], out.podAddresses[a] = judge, name, true
		}
	}
}

// chainName returns a name that is short enough for the kernel, and different for different chains.
func chainName(d direction, kind, what string) string {
	sum := sha256.Sum256([]byte(what))
	return [2]string{"to-", "from-"}[d] + kind + "-" + hex.EncodeToString(sum[:8])
}
