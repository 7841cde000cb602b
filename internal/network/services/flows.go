//go:build linux

package services

import (
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// udpPort is one UDP port of a service: where packets are sent to, and the endpoints to which they may be translated.
// The kernel sends all packets of a flow to the endpoint of its first packet, as long as packets come. So flows to
// endpoints that do not exist any more must be removed.
type udpPort struct {
	addresses []netip.Addr
	port      uint16
	nodePort  uint16
	endpoints []netip.AddrPort
}

func udpPortOf(s *service, p servicePort, id identity, e choice) udpPort {
	all := slices.Concat(e.all, e.local)
	slices.SortFunc(all, netip.AddrPort.Compare)
	return udpPort{append(s.externalAddresses(id.address), id.address), p.number, p.nodePort, slices.Compact(all)}
}

// flowChange is a UDP port whose flows must be checked.
type flowChange struct {
	udpPort
	six bool
}

// flowChanges compares a service's old and new state. Flows must be checked if an endpoint was removed, or the first
// endpoints were added.
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

// forgetFlows removes flows to endpoints that are not allowed any more.
func forgetFlows(all []flowChange, nodeAddresses []netip.Addr, m *Metrics, log *slog.Logger) {
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
		began := time.Now()
		removed, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, f)
		if err != nil {
			log.Warn("old UDP flows could not be removed", "err", err)
		}
		m.removedFlows(six, int(removed), time.Since(began))
	}
}

// flowFilter matches flows to some ports with other endpoints.
type flowFilter struct {
	ports []udpPort
	node  []netip.Addr
}

// MatchConntrackFlow reports whether a flow must be removed.
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
