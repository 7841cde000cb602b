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

// ownRoutes is the protocol number of the agent's routes in the kernel's table. It removes no other routes.
const ownRoutes = 77

// The tunnel to nodes that are not on the same link.
const (
	tunnelName     = "millrace-vxlan"
	tunnelID       = 1
	tunnelPort     = 4789
	tunnelOverhead = 50
)

// router maintains the routes of one node.
type router struct {
	self   peer
	uplink netlink.Link // the link that has the node's address
	mtu    int          // of the pods' links
}

// newRouter finds the link that has the node's address.
func newRouter(self peer) (*router, error) {
	r := &router{self: self}
	links, err := complete(netlink.LinkList)
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		have, err := addressesOf(link)
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

// update sets the routes to the peers' pods. Packets for addresses of this node's ranges that no pod has are refused;
// otherwise they would go round between routers.
func (r *router) update(peers []peer) error {
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
			route, err := r.routeTo(p, family)
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
	return errors.Join(append(errs, r.removeUnwanted(wanted))...)
}

// removeUnwanted removes the agent's routes that are not wanted any more.
func (r *router) removeUnwanted(wanted map[netip.Prefix]*netlink.Route) error {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		have, err := complete(func() ([]netlink.Route, error) {
			return netlink.RouteListFiltered(family, &netlink.Route{Protocol: ownRoutes}, netlink.RT_FILTER_PROTOCOL)
		})
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

// routeTo returns the route to a node's pods: direct if the node is on the same link, otherwise through the tunnel.
func (r *router) routeTo(p peer, family int) (*netlink.Route, error) {
	if a := p.address[family]; a.IsValid() {
		routes, err := netlink.RouteGet(a.AsSlice())
		if err != nil {
			return nil, err
		}
		if len(routes) > 0 && routes[0].Gw == nil {
			return &netlink.Route{LinkIndex: routes[0].LinkIndex, Gw: a.AsSlice()}, nil
		}
	}
	return r.tunnelRoute(p, family)
}

// tunnelRoute returns the route through the tunnel. The other end of the tunnel has the first address of the node's
// range, and a hardware address that is derived from the node's name, so neither has to be looked up.
func (r *router) tunnelRoute(p peer, family int) (*netlink.Route, error) {
	tunnel, err := r.tunnel()
	if err != nil {
		return nil, err
	}
	far, index, mac := p.ranges[family].Addr(), tunnel.Attrs().Index, hardwareAddress(p.name)
	tunnelSource := p.address[familyIndex(r.tunnelSource())]
	if !tunnelSource.IsValid() {
		return nil, errors.New("the nodes have no addresses of the same family")
	}
	afi := netlink.FAMILY_V4
	if far.Is6() {
		afi = netlink.FAMILY_V6
	}
	err = errors.Join(
		netlink.NeighSet(&netlink.Neigh{LinkIndex: index, Family: afi, State: netlink.NUD_PERMANENT, IP: far.AsSlice(), HardwareAddr: mac}),
		netlink.NeighSet(&netlink.Neigh{LinkIndex: index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF, State: netlink.NUD_PERMANENT, IP: tunnelSource.AsSlice(), HardwareAddr: mac}),
	)
	return &netlink.Route{LinkIndex: index, Gw: far.AsSlice(), Flags: int(netlink.FLAG_ONLINK)}, err
}

// tunnelSource returns this node's source address for the tunnel's packets.
func (r *router) tunnelSource() netip.Addr {
	if r.self.address[four].IsValid() {
		return r.self.address[four]
	}
	return r.self.address[six]
}

// tunnel makes the device, unless it exists with these settings.
func (r *router) tunnel() (netlink.Link, error) {
	want := &netlink.Vxlan{
		LinkAttrs: netlink.LinkAttrs{Name: tunnelName, MTU: r.mtu, HardwareAddr: hardwareAddress(r.self.name)},
		VxlanId:   tunnelID, Port: tunnelPort, VtepDevIndex: r.uplink.Attrs().Index, SrcAddr: r.tunnelSource().AsSlice(), Learning: false,
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
			if err := netlink.AddrReplace(link, hostAddress(own.Addr())); err != nil {
				return nil, err
			}
		}
	}
	return link, netlink.LinkSetUp(link)
}

// hardwareAddress returns the hardware address of a node's end of the tunnel.
func hardwareAddress(node string) net.HardwareAddr {
	sum := sha256.Sum256([]byte(node))
	return net.HardwareAddr(append([]byte{0x02}, sum[:5]...))
}
