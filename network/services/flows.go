//go:build linux

package services

import (
	"log/slog"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// udpPort is where packets of one UDP port of a service are sent to, and to whom they may be led. The kernel goes on leading a
// flow to where its first packet went, as long as packets come: flows to endpoints that have ended must be forgotten.
type udpPort struct {
	addresses []netip.Addr
	port      uint16
	nodePort  uint16
	endpoints []netip.AddrPort
}

func udpPortOf(s *service, p servicePort, id identity, e choice) udpPort {
	all := slices.Concat(e.all, e.local)
	slices.SortFunc(all, netip.AddrPort.Compare)
	return udpPort{append(s.outsideOf(id.address), id.address), p.number, p.nodePort, slices.Compact(all)}
}

// flowChange says that the flows to a UDP port are to be looked at.
type flowChange struct {
	udpPort
	six bool
}

// flowChanges compares what a service was with what it is. Flows matter if an endpoint has gone, or the first ones have come.
func flowChanges(before, after *compiled) []flowChange {
	var all []flowChange
	of := func(c *compiled) []udpPort {
		if c == nil {
			return nil
		}
		return c.udp
	}
	for _, old := range of(before) {
		i := slices.IndexFunc(of(after), func(p udpPort) bool {
			return p.port == old.port && p.nodePort == old.nodePort && slices.Equal(p.addresses, old.addresses)
		})
		now := old
		now.endpoints = nil
		if i >= 0 {
			now = of(after)[i]
		}
		gone := slices.ContainsFunc(old.endpoints, func(e netip.AddrPort) bool { return !slices.Contains(now.endpoints, e) })
		if gone || len(old.endpoints) == 0 && len(now.endpoints) > 0 {
			all = append(all, flowChange{now, !now.addresses[0].Is4()})
		}
	}
	if before == nil {
		for _, now := range of(after) {
			all = append(all, flowChange{now, !now.addresses[0].Is4()})
		}
	}
	return all
}

// forgetFlows removes the flows that lead where they may not.
func forgetFlows(all []flowChange, nodeAddresses []netip.Addr, log *slog.Logger) {
	for _, six := range []bool{false, true} {
		f := flowFilter{node: nodeAddresses}
		for _, c := range all {
			if c.six == six {
				f.ports = append(f.ports, c.udpPort)
			}
		}
		if len(f.ports) == 0 {
			continue
		}
		family := netlink.InetFamily(unix.AF_INET)
		if six {
			family = unix.AF_INET6
		}
		if _, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, f); err != nil {
			log.Warn("old UDP flows could not be removed", "err", err)
		}
	}
}

// flowFilter matches flows to some ports that lead elsewhere.
type flowFilter struct {
	ports []udpPort
	node  []netip.Addr
}

// MatchConntrackFlow tells whether a flow is to be removed.
func (f flowFilter) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	if flow.Forward.Protocol != unix.IPPROTO_UDP {
		return false
	}
	to, ok := netip.AddrFromSlice(flow.Forward.DstIP)
	if !ok {
		return false
	}
	to = to.Unmap()
	from, _ := netip.AddrFromSlice(flow.Reverse.SrcIP)
	led := netip.AddrPortFrom(from.Unmap(), flow.Reverse.SrcPort)
	for _, p := range f.ports {
		ours := flow.Forward.DstPort == p.port && slices.Contains(p.addresses, to) ||
			p.nodePort != 0 && flow.Forward.DstPort == p.nodePort && slices.Contains(f.node, to)
		if ours && !slices.Contains(p.endpoints, led) {
			return true
		}
	}
	return false
}
