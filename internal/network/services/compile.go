//go:build linux

package services

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/millrace/millrace/internal/network/nft"
)

// row is one element of one set of one family.
type row struct {
	rowKey
	content
}

// rowKey identifies the element of a row. No two rows of the tables have the same key.
type rowKey struct {
	six bool
	set setNumber
	key string
	end string // the end of a range
}

// content is the value of a row in a map: data or a chain.
type content struct {
	data  string
	chain chain
}

// scope selects which of a service's endpoints an element is for.
type scope uint32

// The scopes are offsets of the endpoints' numbers.
const (
	everywhere scope = 0
	here       scope = 1 << 20
)

// identity identifies one port of a service in one family, whatever the address that packets were sent to.
type identity struct {
	address  netip.Addr
	protocol uint8
	port     uint16
}

func (i identity) key() string { return frontKey(i.address, i.protocol, i.port) }

// frontKey is the key of the maps of service addresses ("fronts"): address, protocol, port.
func frontKey(a netip.Addr, protocol uint8, port uint16) string {
	return string(append(a.AsSlice(), portKey(protocol, port)...))
}

// portKey is the key of the maps of node ports: protocol, port.
func portKey(protocol uint8, port uint16) string {
	return string([]byte{protocol, 0, 0, 0, byte(port >> 8), byte(port), 0, 0})
}

// endpointNumbers are the endpoints in the order of their numbers, by port, family and scope.
type endpointNumbers map[arrangement][]netip.AddrPort

type arrangement struct {
	identity
	scope scope
}

// compiled is the content of the tables for one service.
type compiled struct {
	rows            []row
	endpointNumbers endpointNumbers
	udp             []udpPort // the endpoints of its UDP ports
	unserved        unserved
	health          health // the state for its health-check port
}

// unserved counts the ports of services whose traffic policy is Local, and whose endpoints are all on other nodes: by
// family, for IPv6 second.
type unserved struct{ internal, external [2]int }

// add adds another count, times sign.
func (u *unserved) add(v unserved, sign int) {
	for i := range families {
		u.internal[i] += sign * v.internal[i]
		u.external[i] += sign * v.external[i]
	}
}

// compiler makes the rows of a service.
type compiler struct {
	node   *node
	before endpointNumbers
	out    compiled
}

// compile makes the rows of a service. The result depends on the arguments only; before are the last numbers of its
// endpoints.
func compile(s *service, all []*slice, n *node, before endpointNumbers) compiled {
	c := compiler{node: n, before: before, out: compiled{endpointNumbers: endpointNumbers{}}}
	for _, p := range s.ports {
		for _, address := range s.clusterIPs {
			c.addPort(s, p, address, choose(p, all, n, address.Is4()))
		}
	}
	for _, address := range s.clusterIPs {
		c.add(address, clusterIPs, string(address.AsSlice()), content{})
	}
	c.addHairpins(all)
	if s.healthPort != 0 {
		c.out.health = health{port: s.healthPort, local: localEndpoints(all, n)}
	}
	return c.out
}

// add adds a row in the family of an address.
func (c *compiler) add(family netip.Addr, set setNumber, key string, v content) {
	c.out.rows = append(c.out.rows, row{rowKey{six: !family.Is4(), set: set, key: key}, v})
}

// addPort adds the rows of one port in one family.
func (c *compiler) addPort(s *service, p servicePort, address netip.Addr, e choice) {
	id := identity{address, p.protocol, p.number}
	inside, insideScope := e.all, everywhere
	if s.localInside {
		inside, insideScope = e.local, here
	}
	c.addFront(address, fronts, refused, id.key(), chain{kind: kindCluster, scope: insideScope, n: len(inside), affinityTimeout: s.affinityTimeout}, len(e.all) == 0)
	reached := c.addExternal(s, p, id, e)
	if !s.localInside || reached {
		c.addEndpoints(id, everywhere, e.all, s.affinityTimeout)
	}
	if s.localInside || reached && s.localOutside {
		c.addEndpoints(id, here, e.local, s.affinityTimeout)
	}
	c.countUnserved(s, address, e, reached)
	if p.protocol == 17 {
		c.out.udp = append(c.out.udp, udpPortOf(s, p, id, e))
	}
}

func (c *compiler) countUnserved(s *service, address netip.Addr, e choice, reached bool) {
	if len(e.local) > 0 || len(e.all) == 0 {
		return
	}
	family := familyNumber(!address.Is4())
	if s.localInside {
		c.out.unserved.internal[family]++
	}
	if s.localOutside && reached {
		c.out.unserved.external[family]++
	}
}

// familyNumber is 0 for IPv4 and 1 for IPv6.
func familyNumber(six bool) int {
	if six {
		return 1
	}
	return 0
}

// addFront adds the row that leads to endpoints. Without endpoints it adds a row that rejects the packet if there are
// none anywhere, or drops it if there are some on other nodes.
func (c *compiler) addFront(family netip.Addr, to, otherwise setNumber, key string, leads chain, none bool) {
	switch {
	case leads.n > 0:
		c.add(family, to, key, content{chain: leads})
	case none:
		c.add(family, otherwise, key, content{chain: chain{kind: kindReject}})
	default:
		c.add(family, otherwise, key, content{chain: chain{kind: kindDrop}})
	}
}

// addExternal adds the rows of external addresses and node ports, and reports whether there are any.
func (c *compiler) addExternal(s *service, p servicePort, id identity, e choice) bool {
	var reached bool
	for _, a := range s.externalAddresses(id.address) {
		reached = true
		key := frontKey(a, p.protocol, p.number)
		c.add(a, targets, key, content{data: id.key()})
		c.addEntrance(a, external, key, s, e)
	}
	for _, a := range s.balancers {
		if a.Is4() == id.address.Is4() && len(s.sources) > 0 {
			c.addSources(a, frontKey(a, p.protocol, p.number), s.sources)
		}
	}
	if p.nodePort != 0 {
		reached = true
		key := portKey(p.protocol, p.nodePort)
		c.add(id.address, nodeTargets, key, content{data: id.key()})
		c.addEntrance(id.address, nodePort, key, s, e)
	}
	return reached
}

// externalAddresses returns the external addresses of a service in the family of an address, without repetitions.
func (s *service) externalAddresses(family netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range slices.Concat(s.externals, s.balancers) {
		if a.Is4() == family.Is4() && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// entrance has the sets and the kinds of chains for external addresses or for node ports.
type entrance struct {
	fronts, refused, insideFronts, localFronts setNumber
	kind, inside, local                        kind
}

var (
	external = entrance{fronts, refused, frontsInside, frontsLocal, kindExternal, kindExternalInside, kindExternalLocal}
	nodePort = entrance{nodePorts, refusedNodePorts, nodePortsInside, nodePortsLocal, kindNode, kindNodeInside, kindNodeLocal}
)

func (c *compiler) addEntrance(family netip.Addr, in entrance, key string, s *service, e choice) {
	all := chain{kind: in.kind, n: len(e.all), affinityTimeout: s.affinityTimeout}
	if !s.localOutside || len(e.all) == 0 && len(e.local) == 0 {
		c.addFront(family, in.fronts, in.refused, key, all, true)
		return
	}
	c.add(family, in.fronts, key, content{chain: chain{kind: in.local}})
	if len(e.all) > 0 {
		all.kind = in.inside
		c.add(family, in.insideFronts, key, content{chain: all})
	}
	c.addFront(family, in.localFronts, in.refused, key, chain{kind: in.inside, scope: here, n: len(e.local), affinityTimeout: s.affinityTimeout}, false)
}

func (c *compiler) addSources(family netip.Addr, key string, all []netip.Prefix) {
	c.add(family, firewalled, key, content{})
	for _, p := range all {
		if p.Addr().Is4() != family.Is4() {
			continue
		}
		c.out.rows = append(c.out.rows, row{rowKey: rowKey{
			six: !family.Is4(), set: allowed, key: key + string(p.Addr().AsSlice()), end: key + string(nft.LastOf(p).AsSlice()),
		}})
	}
}

// addEndpoints adds the rows of the endpoints to choose from. As many as possible keep their number.
func (c *compiler) addEndpoints(id identity, s scope, all []netip.AddrPort, sticky uint32) {
	if len(all) == 0 {
		return
	}
	at := arrangement{id, s}
	arranged := numberEndpoints(c.before[at], all)
	c.out.endpointNumbers[at] = arranged
	key := id.key()
	for i, e := range arranged {
		data := string(append(e.Addr().AsSlice(), byte(e.Port()>>8), byte(e.Port()), 0, 0))
		c.add(id.address, endpointsMap, key+number(uint32(s)+uint32(i)), content{data: data})
		if sticky > 0 {
			c.add(id.address, affine, key+number(uint32(s))+data, content{})
		}
	}
}

// addHairpins adds the rows of endpoints that may connect to their own service: those on this node, and those without a
// known node.
func (c *compiler) addHairpins(all []*slice) {
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

// number encodes a number as the kernel keeps it in a register.
func number(n uint32) string { return string(binary.NativeEndian.AppendUint32(nil, n)) }

// element converts a row to an element of a set.
func (r row) element() nft.Element {
	return nft.Element{Key: r.key, End: r.end, Data: r.data, Goto: r.chain.name()}
}
