//go:build linux

package pods

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ownRoutes marks the agent's routes in the kernel's table, so that it knows which of them it may remove.
const ownRoutes = 77

// The tunnel to nodes that are not on the same link.
const (
	tunnelName     = "millrace-vxlan"
	tunnelID       = 1
	tunnelPort     = 4789
	tunnelOverhead = 50
)

// router keeps the routes of one node.
type router struct {
	self   peer
	uplink netlink.Link // the link that has the node's address
	mtu    int          // of the pods' links
}

// newRouter finds the link that has the node's address.
func newRouter(self peer) (*router, error) {
	r := &router{self: self}
	links, err := netlink.LinkList()
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		have, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			return nil, err
		}
		for _, h := range have {
			ip, _ := netip.AddrFromSlice(h.IP)
			if ip = ip.Unmap(); ip == self.address[four] || ip == self.address[six] {
				r.uplink, r.mtu = link, min(link.Attrs().MTU, 1500)-tunnelOverhead
				return r, nil
			}
		}
	}
	return nil, fmt.Errorf("no link of this machine has the node's address (%s, %s)", self.address[four], self.address[six])
}

// follow makes the routes those that lead to the peers' pods. What is for pods of this node that are not there is refused, so that
// it does not go round between routers.
func (r *router) follow(peers []peer) error {
	wanted := map[netip.Prefix]*netlink.Route{}
	var errs []error
	for _, own := range r.self.ranges {
		if own.IsValid() {
			wanted[own] = &netlink.Route{Type: unix.RTN_UNREACHABLE, Priority: 4096}
		}
	}
	for _, p := range peers {
		for family, to := range p.ranges {
			if !to.IsValid() || !p.address[family].IsValid() && !p.address[four].IsValid() {
				continue
			}
			route, err := r.way(p, family)
			if err != nil {
				errs = append(errs, fmt.Errorf("find the way to node %s: %w", p.name, err))
				continue
			}
			wanted[to] = route
		}
	}
	for to, route := range wanted {
		route.Dst, route.Protocol = network(to), ownRoutes
		if err := netlink.RouteReplace(route); err != nil {
			errs = append(errs, fmt.Errorf("route to %s: %w", to, err))
		}
	}
	return errors.Join(append(errs, r.forget(wanted))...)
}

// forget removes the agent's routes that are not wanted any more.
func (r *router) forget(wanted map[netip.Prefix]*netlink.Route) error {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		have, err := netlink.RouteListFiltered(family, &netlink.Route{Protocol: ownRoutes}, netlink.RT_FILTER_PROTOCOL)
		if err != nil {
			return err
		}
		for _, route := range have {
			if route.Dst == nil {
				continue
			}
			ip, _ := netip.AddrFromSlice(route.Dst.IP)
			bits, _ := route.Dst.Mask.Size()
			if wanted[netip.PrefixFrom(ip.Unmap(), bits)] != nil {
				continue
			}
			if err := netlink.RouteDel(&route); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return nil
}

// way is the route to a node's pods: by its address if it is on the same link, else by the tunnel.
func (r *router) way(p peer, family int) (*netlink.Route, error) {
	if a := p.address[family]; a.IsValid() {
		routes, err := netlink.RouteGet(a.AsSlice())
		if err != nil {
			return nil, err
		}
		if len(routes) > 0 && routes[0].Gw == nil {
			return &netlink.Route{LinkIndex: routes[0].LinkIndex, Gw: a.AsSlice()}, nil
		}
	}
	return r.through(p, family)
}

// through is the route by the tunnel. The far end of the tunnel has the first address of the node's range, and a hardware address
// that follows from the node's name: nobody has to be asked for either.
func (r *router) through(p peer, family int) (*netlink.Route, error) {
	tunnel, err := r.tunnel()
	if err != nil {
		return nil, err
	}
	far, index, mac := p.ranges[family].Addr(), tunnel.Attrs().Index, hardware(p.name)
	outer := p.address[familyIndex(r.outer())]
	if !outer.IsValid() {
		return nil, errors.New("the nodes have no addresses of the same family")
	}
	afi := netlink.FAMILY_V4
	if far.Is6() {
		afi = netlink.FAMILY_V6
	}
	err = errors.Join(
		netlink.NeighSet(&netlink.Neigh{LinkIndex: index, Family: afi, State: netlink.NUD_PERMANENT, IP: far.AsSlice(), HardwareAddr: mac}),
		netlink.NeighSet(&netlink.Neigh{LinkIndex: index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF, State: netlink.NUD_PERMANENT, IP: outer.AsSlice(), HardwareAddr: mac}),
	)
	return &netlink.Route{LinkIndex: index, Gw: far.AsSlice(), Flags: int(netlink.FLAG_ONLINK)}, err
}

// outer is this node's address that the tunnel's packets come from.
func (r *router) outer() netip.Addr {
	if r.self.address[four].IsValid() {
		return r.self.address[four]
	}
	return r.self.address[six]
}

// tunnel makes the device, if it is not there as it should be.
func (r *router) tunnel() (netlink.Link, error) {
	want := &netlink.Vxlan{
		LinkAttrs: netlink.LinkAttrs{Name: tunnelName, MTU: r.mtu, HardwareAddr: hardware(r.self.name)},
		VxlanId:   tunnelID, Port: tunnelPort, VtepDevIndex: r.uplink.Attrs().Index, SrcAddr: r.outer().AsSlice(), Learning: false,
	}
	if have, err := netlink.LinkByName(tunnelName); err == nil {
		v, ok := have.(*netlink.Vxlan)
		if ok && v.VxlanId == tunnelID && v.SrcAddr.Equal(want.SrcAddr) && v.HardwareAddr.String() == want.HardwareAddr.String() {
			return have, nil
		}
		if err := netlink.LinkDel(have); err != nil {
			return nil, err
		}
	}
	if err := netlink.LinkAdd(want); err != nil {
		return nil, fmt.Errorf("make the tunnel (the kernel needs VXLAN for nodes that are not on one link): %w", err)
	}
	link, err := netlink.LinkByName(tunnelName)
	if err != nil {
		return nil, err
	}
	for _, own := range r.self.ranges {
		if own.IsValid() {
			if err := netlink.AddrReplace(link, alone(own.Addr())); err != nil {
				return nil, err
			}
		}
	}
	return link, netlink.LinkSetUp(link)
}

// hardware is the hardware address of a node's end of the tunnel.
func hardware(node string) net.HardwareAddr {
	sum := sha256.Sum256([]byte(node))
	return net.HardwareAddr(append([]byte{0x02}, sum[:5]...))
}
