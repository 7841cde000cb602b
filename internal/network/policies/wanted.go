package policies

import (
	"maps"
	"net/netip"
	"slices"
)

// wanted is the content that the table of one family should have. Two can be compared.
type wanted struct {
	// podChains are the chains of the node's isolated pods, by direction and address: they decide on the pod's packets.
	podChains [2]map[netip.Addr]string
	// podAddresses are the addresses of the node's isolated pods; a pod may always connect to itself.
	podAddresses map[netip.Addr]bool
	chains       map[string]chain
	sets         map[string]set
}

// direction is ingress, packets to a pod, or egress, packets from it.
type direction uint8

const (
	ingress direction = iota
	egress
)

// chain is a chain of rules. At its end it drops the packet or returns to its caller.
type chain struct {
	direction direction
	rules     []rule
	drop      bool
}

func (c chain) same(other chain) bool {
	return c.direction == other.direction && c.drop == other.drop && slices.Equal(c.rules, other.rules)
}

// rule accepts a packet that is in all the sets that it names, or jumps to a chain.
type rule struct {
	peers, ports string // names of sets; empty: all
	named        string // a set of destination addresses with protocol and port
	jump         string
}

// set is a set with one type of elements.
type set struct {
	kind setType
	// Only the map for the set's kind is used.
	addresses map[netip.Addr]bool
	blocks    []netip.Prefix
	ports     []portRange
	named     map[namedTarget]bool
}

type setType uint8

const (
	ofAddresses setType = iota
	ofBlocks
	ofPorts
	ofNamed
)

// portRange is a range of ports of one protocol, including both ends.
type portRange struct {
	protocol    uint8
	first, last uint16
}

// namedTarget is a port of a pod that a policy refers to by name.
type namedTarget struct {
	address  netip.Addr
	protocol uint8
	port     uint16
}

func (s set) same(other set) bool {
	return s.kind == other.kind && maps.Equal(s.addresses, other.addresses) && slices.Equal(s.blocks, other.blocks) &&
		slices.Equal(s.ports, other.ports) && maps.Equal(s.named, other.named)
}

func newWanted() *wanted {
	w := &wanted{podAddresses: map[netip.Addr]bool{}, chains: map[string]chain{}, sets: map[string]set{}}
	for d := range w.podChains {
		w.podChains[d] = map[netip.Addr]string{}
	}
	return w
}

// merged merges ranges that overlap or touch, as the kernel requires.
func merged(all []portRange) []portRange {
	slices.SortFunc(all, func(a, b portRange) int {
		return int(a.protocol)<<16 + int(a.first) - int(b.protocol)<<16 - int(b.first)
	})
	var out []portRange
	for _, r := range all {
		if n := len(out); n > 0 && out[n-1].protocol == r.protocol && int(r.first) <= int(out[n-1].last)+1 {
			out[n-1].last = max(out[n-1].last, r.last)
			continue
		}
		out = append(out, r)
	}
	return out
}

// without returns the parts of a block that are in no exception.
func without(block netip.Prefix, exceptions []netip.Prefix) []netip.Prefix {
	for _, e := range exceptions {
		if e.Bits() <= block.Bits() && e.Overlaps(block) {
			return nil
		}
	}
	if !slices.ContainsFunc(exceptions, block.Overlaps) {
		return []netip.Prefix{block}
	}
	low, high := halves(block)
	return append(without(low, exceptions), without(high, exceptions)...)
}

// halves splits a block that contains more than one address.
func halves(p netip.Prefix) (low, high netip.Prefix) {
	bytes := p.Masked().Addr().AsSlice()
	low = netip.PrefixFrom(p.Masked().Addr(), p.Bits()+1)
	bytes[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
	middle, _ := netip.AddrFromSlice(bytes)
	return low, netip.PrefixFrom(middle, p.Bits()+1)
}
