//go:build linux

package services

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millrace/millrace/network/nft"
)

// kind says how the packets of a chain came, and so where their service stands.
type kind uint8

// The kinds of chains that maps lead to.
const (
	kindNone           kind = iota
	kindCluster             // to the service's cluster address
	kindExternal            // to an external address
	kindExternalInside      // the same, and the source is not hidden
	kindExternalLocal       // the same, for services whose external traffic stays on the node
	kindNode                // to a node port
	kindNodeInside
	kindNodeLocal
	kindReject
	kindDrop
)

var kindNames = [...]string{"", "cluster", "external", "external-inside", "external-local", "node", "node-inside", "node-local", "reject", "drop"}

// chain is a chain that maps lead to. Those that choose among endpoints exist once for each number of them.
type chain struct {
	kind   kind
	scope  scope
	n      int
	sticky uint32 // seconds
}

// chooses tells whether a chain chooses among endpoints: such chains are made when the first service needs them.
func (c chain) chooses() bool { return c.n > 0 }

func (c chain) name() string {
	name := kindNames[c.kind]
	if !c.chooses() {
		return name
	}
	if c.scope == here {
		name += "-here"
	}
	name = fmt.Sprintf("%s-%d", name, c.n)
	if c.sticky > 0 {
		name = fmt.Sprintf("%s-sticky-%d", name, c.sticky)
	}
	return name
}

// masqueradeMark is the bit of a packet's mark that says that its source is to be hidden. It is kube-proxy's.
const masqueradeMark = 0x4000

// family writes the rules of one family.
type family struct {
	name string // of the table, if it is not the usual one
	six  bool
	pods netip.Prefix // where the cluster's pods are; may be invalid
	all  bool         // hide all sources
}

func (f family) nft() nft.Family {
	if f.six {
		return nft.IPv6
	}
	return nft.IPv4
}

// words is the number of registers of an address.
func (f family) words() nft.Register {
	if f.six {
		return 4
	}
	return 1
}

// source and destination read an address of the packet.
func (f family) source(to nft.Register) nft.Expression {
	if f.six {
		return nft.Network(8, 16, to)
	}
	return nft.Network(12, 4, to)
}

func (f family) destination(to nft.Register) nft.Expression {
	if f.six {
		return nft.Network(24, 16, to)
	}
	return nft.Network(16, 4, to)
}

// ports reads the protocol and the port that the packet is for.
func ports(to nft.Register) []nft.Expression {
	return []nft.Expression{nft.Meta(unix.NFT_META_L4PROTO, to), nft.Transport(2, 2, to+1)}
}

// front reads destination, protocol and port.
func (f family) front(to nft.Register) []nft.Expression {
	return append([]nft.Expression{f.destination(to)}, ports(to+f.words())...)
}

// identity reads the key of the service that the packet is for, where the chain's kind says.
func (f family) identity(k kind, to nft.Register) []nft.Expression {
	switch k {
	case kindExternal, kindExternalInside:
		return append(f.front(to), nft.Find(setNames[targets], to, to))
	case kindNode, kindNodeInside:
		return append(ports(to), nft.Find(setNames[nodeTargets], to, to))
	}
	return f.front(to)
}

// mark are the expressions that mark a packet whose source is to be hidden.
func mark() []nft.Expression {
	return []nft.Expression{
		nft.Meta(unix.NFT_META_MARK, nft.R0),
		nft.Masked(nft.R0, nft.Native(^uint32(masqueradeMark)), nft.Native(masqueradeMark)),
		nft.SetMeta(unix.NFT_META_MARK, nft.R0),
	}
}

// fromPods goes on if the source is a pod of the cluster, or, inverted, if it is not.
func (f family) fromPods(inverted bool) []nft.Expression {
	mask := make([]byte, f.pods.Addr().BitLen()/8)
	for bit := range f.pods.Bits() {
		mask[bit/8] |= 0x80 >> (bit % 8)
	}
	test := nft.Equal
	if inverted {
		test = nft.Unequal
	}
	return []nft.Expression{f.source(nft.R0), nft.Masked(nft.R0, mask, make([]byte, len(mask))), test(nft.R0, f.pods.Addr().AsSlice())}
}

// rules are those of a chain that chooses among endpoints.
func (f family) rules(c chain) [][]nft.Expression {
	var all [][]nft.Expression
	switch {
	case c.kind == kindExternal || c.kind == kindNode || c.kind == kindCluster && f.all:
		all = append(all, mark())
	case c.kind == kindCluster && f.pods.IsValid():
		all = append(all, append(f.fromPods(true), mark()...))
	}
	if c.sticky > 0 {
		return append(all, f.again(c), f.stick(c))
	}
	return append(all, f.choose(c))
}

// choose draws a number and leads to the endpoint that has it.
func (f family) choose(c chain) []nft.Expression {
	number := nft.R0 + f.words() + 2 // behind the identity
	to := number + 1
	return append(f.identity(c.kind, nft.R0),
		nft.RandomFrom(uint32(c.scope), uint32(c.n), number), nft.Find(setNames[endpointsMap], nft.R0, to), nft.Destination(f.nft(), to, to+f.words()))
}

// again leads to the endpoint that the client had last, if it is still there. The registers hold client, identity, scope and
// endpoint, so that the last three are the key that tells whether it is.
func (f family) again(c chain) []nft.Expression {
	id, scopeAt, to := f.sticking()
	rule := append([]nft.Expression{f.source(nft.R0)}, f.identity(c.kind, id)...)
	return append(rule, nft.Load(scopeAt, nft.Native(uint32(c.scope))), nft.Find(setNames[affinity], nft.R0, to), nft.In(setNames[affine], id),
		nft.Refresh(setNames[affinity], nft.R0, to, time.Duration(c.sticky)*time.Second), nft.Destination(f.nft(), to, to+f.words()))
}

// stick chooses an endpoint and notes it for the client, in place of one that has gone. Elements that are forgotten stay in the way
// of others with their key until the kernel collects them, a second later; so this is not done for each connection.
func (f family) stick(c chain) []nft.Expression {
	id, scopeAt, to := f.sticking()
	rule := append([]nft.Expression{f.source(nft.R0)}, f.identity(c.kind, id)...)
	return append(rule, nft.RandomFrom(uint32(c.scope), uint32(c.n), scopeAt), nft.Find(setNames[endpointsMap], id, to),
		nft.Load(scopeAt, nft.Native(uint32(c.scope))), nft.Forget(setNames[affinity], nft.R0, to),
		nft.Remember(setNames[affinity], nft.R0, to, time.Duration(c.sticky)*time.Second), nft.Destination(f.nft(), to, to+f.words()))
}

// sticking is where the registers of affinity are: behind the client the identity, behind that the scope, behind that the endpoint.
func (f family) sticking() (id, scopeAt, to nft.Register) {
	id = nft.R0 + f.words()
	scopeAt = id + f.words() + 2
	return id, scopeAt, scopeAt + 1
}
