//go:build linux

package services

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millrace/millrace/internal/network/nft"
)

// kind is the way on which packets have reached a chain. It determines where the chain finds the key of the service.
type kind uint8

// The kinds of chains that are values of maps.
const (
	kindNone           kind = iota
	kindCluster             // packets to the service's cluster IP
	kindExternal            // packets to an external address
	kindExternalInside      // the same, and the source is not masqueraded
	kindExternalLocal       // the same, for services with externalTrafficPolicy Local
	kindNode                // packets to a node port
	kindNodeInside
	kindNodeLocal
	kindReject
	kindDrop
)

var kindNames = [...]string{"", "cluster", "external", "external-inside", "external-local", "node", "node-inside", "node-local", "reject", "drop"}

// chain is a chain that maps lead to. Chains that choose an endpoint exist once for each number of endpoints.
type chain struct {
	kind            kind
	scope           scope
	n               int
	affinityTimeout uint32 // seconds
}

// chooses reports whether a chain chooses an endpoint: such chains are made when the first service needs them.
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
	if c.affinityTimeout > 0 {
		name = fmt.Sprintf("%s-sticky-%d", name, c.affinityTimeout)
	}
	return name
}

// masqueradeMark is the bit of a packet's mark that requests masquerading. It is kube-proxy's.
const masqueradeMark = 0x4000

// family makes the rules of one family.
type family struct {
	name string // of the table, if it is not the default
	six  bool
	pods netip.Prefix // the range of the cluster's pods; may be invalid
	all  bool         // masquerade all packets
}

func (f family) nft() nft.Family {
	if f.six {
		return nft.IPv6
	}
	return nft.IPv4
}

// registers returns the number of registers of an address.
func (f family) registers() nft.Register {
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

// ports reads the packet's protocol and destination port.
func ports(to nft.Register) []nft.Expression {
	return []nft.Expression{nft.Meta(unix.NFT_META_L4PROTO, to), nft.Transport(2, 2, to+1)}
}

// serviceKey reads destination address, protocol and port.
func (f family) serviceKey(to nft.Register) []nft.Expression {
	return append([]nft.Expression{f.destination(to)}, ports(to+f.registers())...)
}

// identity reads the key of the packet's service. The chain's kind determines where it is.
func (f family) identity(k kind, to nft.Register) []nft.Expression {
	switch k {
	case kindExternal, kindExternalInside:
		return append(f.serviceKey(to), nft.Lookup(setNames[targets], to, to))
	case kindNode, kindNodeInside:
		return append(ports(to), nft.Lookup(setNames[nodeTargets], to, to))
	}
	return f.serviceKey(to)
}

// mark returns the expressions that mark a packet for masquerading.
func mark() []nft.Expression {
	return []nft.Expression{
		nft.Meta(unix.NFT_META_MARK, nft.R0),
		nft.Masked(nft.R0, nft.Native(^uint32(masqueradeMark)), nft.Native(masqueradeMark)),
		nft.SetMeta(unix.NFT_META_MARK, nft.R0),
	}
}

// fromPods continues the rule if the source is a pod of the cluster, or, inverted, if it is not.
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

// rules returns the rules of a chain that chooses an endpoint.
func (f family) rules(c chain) [][]nft.Expression {
	var all [][]nft.Expression
	switch {
	case c.kind == kindExternal || c.kind == kindNode || c.kind == kindCluster && f.all:
		all = append(all, mark())
	case c.kind == kindCluster && f.pods.IsValid():
		all = append(all, append(f.fromPods(true), mark()...))
	}
	if c.affinityTimeout > 0 {
		return append(all, f.affinityKnown(c), f.affinityNew(c))
	}
	return append(all, f.choose(c))
}

// choose takes a random number and translates the destination to the endpoint with that number.
func (f family) choose(c chain) []nft.Expression {
	number := nft.R0 + f.registers() + 2 // after the identity
	to := number + 1
	return append(f.identity(c.kind, nft.R0),
		nft.RandomFrom(uint32(c.scope), uint32(c.n), number), nft.Lookup(setNames[endpointsMap], nft.R0, to), nft.Destination(f.nft(), to, to+f.registers()))
}

// affinityKnown translates to the endpoint that the client used last, if it still exists. The registers contain client,
// identity, scope and endpoint; the last three are the key with which that is looked up.
func (f family) affinityKnown(c chain) []nft.Expression {
	id, scopeAt, to := f.affinityRegisters()
	rule := append([]nft.Expression{f.source(nft.R0)}, f.identity(c.kind, id)...)
	return append(rule, nft.Load(scopeAt, nft.Native(uint32(c.scope))), nft.Lookup(setNames[affinity], nft.R0, to), nft.In(setNames[affine], id),
		nft.UpdateInMap(setNames[affinity], nft.R0, to, time.Duration(c.affinityTimeout)*time.Second), nft.Destination(f.nft(), to, to+f.registers()))
}

// affinityNew chooses an endpoint and records it for the client. It replaces the record of an endpoint that does not
// exist any more. A removed element blocks others with the same key until the kernel collects it, a second later. So
// this is not done for each connection.
func (f family) affinityNew(c chain) []nft.Expression {
	id, scopeAt, to := f.affinityRegisters()
	rule := append([]nft.Expression{f.source(nft.R0)}, f.identity(c.kind, id)...)
	return append(rule, nft.RandomFrom(uint32(c.scope), uint32(c.n), scopeAt), nft.Lookup(setNames[endpointsMap], id, to),
		nft.Load(scopeAt, nft.Native(uint32(c.scope))), nft.DeleteFromMap(setNames[affinity], nft.R0, to),
		nft.AddToMap(setNames[affinity], nft.R0, to, time.Duration(c.affinityTimeout)*time.Second), nft.Destination(f.nft(), to, to+f.registers()))
}

// affinityRegisters returns the registers for affinity: after the client the identity, then the scope, then the
// endpoint.
func (f family) affinityRegisters() (id, scopeAt, to nft.Register) {
	id = nft.R0 + f.registers()
	scopeAt = id + f.registers() + 2
	return id, scopeAt, scopeAt + 1
}
