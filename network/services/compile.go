//go:build linux

package services

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/millrace/millrace/network/nft"
)

// row is one element of one set of one family.
type row struct {
	place
	content
}

// place says which element a row is. No two rows of the tables have the same.
type place struct {
	six bool
	set setNumber
	key string
	end string // of a range
}

// content is what a map has there: data or a chain.
type content struct {
	data  string
	chain chain
}

// scope says which of a service's endpoints an element is about.
type scope uint32

// The scopes are offsets of the numbers of endpoints.
const (
	everywhere scope = 0
	here       scope = 1 << 20
)

// identity names one port of a service in one family, wherever its packets were sent to.
type identity struct {
	address  netip.Addr
	protocol uint8
	port     uint16
}

func (i identity) key() string { return frontKey(i.address, i.protocol, i.port) }

// frontKey is the key of the map fronts: address, protocol, port.
func frontKey(a netip.Addr, protocol uint8, port uint16) string {
	return string(append(a.AsSlice(), portKey(protocol, port)...))
}

// portKey is the key of the map of node ports.
func portKey(protocol uint8, port uint16) string {
	return string([]byte{protocol, 0, 0, 0, byte(port >> 8), byte(port), 0, 0})
}

// places is an arrangement of endpoints by port, family and scope.
type places map[arrangement][]netip.AddrPort

type arrangement struct {
	identity
	scope scope
}

// compiled is what one service is in the tables.
type compiled struct {
	rows   []row
	places places
	udp    []udpPort // what connections to it may go to
	health health    // of its health-check port
}

// compiler turns a service into rows.
type compiler struct {
	node   *node
	before places
	out    compiled
}

// compile makes the rows of a service. It depends on its arguments only; before is how its endpoints were arranged last.
func compile(s *service, all []*slice, n *node, before places) compiled {
	c := compiler{node: n, before: before, out: compiled{places: places{}}}
	for _, p := range s.ports {
		for _, address := range s.clusterIPs {
			c.port(s, p, address, choose(p, all, n, address.Is4()))
		}
	}
	for _, address := range s.clusterIPs {
		c.add(address, clusterIPs, string(address.AsSlice()), content{})
	}
	c.hairpins(all)
	if s.healthPort != 0 {
		c.out.health = health{port: s.healthPort, local: localEndpoints(all, n)}
	}
	return c.out
}

// add adds a row in the family of an address.
func (c *compiler) add(family netip.Addr, set setNumber, key string, v content) {
	c.out.rows = append(c.out.rows, row{place{six: !family.Is4(), set: set, key: key}, v})
}

// port makes the rows of one port in one family.
func (c *compiler) port(s *service, p servicePort, address netip.Addr, e choice) {
	id := identity{address, p.protocol, p.number}
	inside, insideScope := e.all, everywhere
	if s.localInside {
		inside, insideScope = e.local, here
	}
	c.front(address, fronts, refused, id.key(), chain{kind: kindCluster, scope: insideScope, n: len(inside), sticky: s.sticky}, len(e.all) == 0)
	reached := c.outside(s, p, id, e)
	if !s.localInside || reached {
		c.endpoints(id, everywhere, e.all, s.sticky)
	}
	if s.localInside || reached && s.localOutside {
		c.endpoints(id, here, e.local, s.sticky)
	}
	if p.protocol == 17 {
		c.out.udp = append(c.out.udp, udpPortOf(s, p, id, e))
	}
}

// front makes the row that leads to endpoints, or that refuses if there are none: with an error if there are none anywhere, and
// silently if they are only on other nodes.
func (c *compiler) front(family netip.Addr, to, otherwise setNumber, key string, leads chain, none bool) {
	switch {
	case leads.n > 0:
		c.add(family, to, key, content{chain: leads})
	case none:
		c.add(family, otherwise, key, content{chain: chain{kind: kindReject}})
	default:
		c.add(family, otherwise, key, content{chain: chain{kind: kindDrop}})
	}
}

// outside makes the rows of external addresses and node ports, and tells whether there are any.
func (c *compiler) outside(s *service, p servicePort, id identity, e choice) bool {
	var reached bool
	for _, a := range s.outsideOf(id.address) {
		reached = true
		key := frontKey(a, p.protocol, p.number)
		c.add(a, targets, key, content{data: id.key()})
		c.entrance(a, external, key, s, e)
	}
	for _, a := range s.balancers {
		if a.Is4() == id.address.Is4() && len(s.sources) > 0 {
			c.sources(a, frontKey(a, p.protocol, p.number), s.sources)
		}
	}
	if p.nodePort != 0 {
		reached = true
		key := portKey(p.protocol, p.nodePort)
		c.add(id.address, nodeTargets, key, content{data: id.key()})
		c.entrance(id.address, nodePort, key, s, e)
	}
	return reached
}

// outsideOf are the external addresses of a service in the family of an address, each once.
func (s *service) outsideOf(family netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range slices.Concat(s.externals, s.balancers) {
		if a.Is4() == family.Is4() && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// entrance is a way in from outside: the sets and kinds of chains that it uses.
type entrance struct {
	fronts, refused, insideFronts, localFronts setNumber
	kind, inside, local                        kind
}

var (
	external = entrance{fronts, refused, frontsInside, frontsLocal, kindExternal, kindExternalInside, kindExternalLocal}
	nodePort = entrance{nodePorts, refusedNodePorts, nodePortsInside, nodePortsLocal, kindNode, kindNodeInside, kindNodeLocal}
)

func (c *compiler) entrance(family netip.Addr, in entrance, key string, s *service, e choice) {
	all := chain{kind: in.kind, n: len(e.all), sticky: s.sticky}
	if !s.localOutside || len(e.all) == 0 && len(e.local) == 0 {
		c.front(family, in.fronts, in.refused, key, all, true)
		return
	}
	c.add(family, in.fronts, key, content{chain: chain{kind: in.local}})
	if len(e.all) > 0 {
		all.kind = in.inside
		c.add(family, in.insideFronts, key, content{chain: all})
	}
	c.front(family, in.localFronts, in.refused, key, chain{kind: in.inside, scope: here, n: len(e.local), sticky: s.sticky}, false)
}

func (c *compiler) sources(family netip.Addr, key string, all []netip.Prefix) {
	c.add(family, firewalled, key, content{})
	for _, p := range all {
		if p.Addr().Is4() != family.Is4() {
			continue
		}
		c.out.rows = append(c.out.rows, row{place: place{
			six: !family.Is4(), set: allowed, key: key + string(p.Addr().AsSlice()), end: key + string(nft.LastOf(p).AsSlice()),
		}})
	}
}

// endpoints makes the rows of the endpoints to choose from, numbered as they were before as far as possible.
func (c *compiler) endpoints(id identity, s scope, all []netip.AddrPort, sticky uint32) {
	if len(all) == 0 {
		return
	}
	at := arrangement{id, s}
	arranged := arrange(c.before[at], all)
	c.out.places[at] = arranged
	key := id.key()
	for i, e := range arranged {
		data := string(append(e.Addr().AsSlice(), byte(e.Port()>>8), byte(e.Port()), 0, 0))
		c.add(id.address, endpointsMap, key+number(uint32(s)+uint32(i)), content{data: data})
		if sticky > 0 {
			c.add(id.address, affine, key+number(uint32(s))+data, content{})
		}
	}
}

// hairpins makes the rows of endpoints that may call their own service: those on this node, and those of which no node is known.
func (c *compiler) hairpins(all []*slice) {
	seen := map[netip.Addr]bool{}
	for _, s := range all {
		for _, e := range s.endpoints {
			if a := e.address; (e.node == "" || e.node == c.node.name) && !seen[a] && !slices.Contains(c.node.addresses, a) {
				seen[a] = true
				c.add(a, hairpin, string(a.AsSlice())+string(a.AsSlice()), content{})
			}
		}
	}
}

// number is a number as the kernel keeps it in a register.
func number(n uint32) string { return string(binary.NativeEndian.AppendUint32(nil, n)) }

// element is a row as the kernel gets it.
func (r row) element() nft.Element {
	return nft.Element{Key: r.key, End: r.end, Data: r.data, Goto: r.chain.name()}
}
