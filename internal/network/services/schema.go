//go:build linux

package services

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/millrace/millrace/internal/network/nft"
)

// tableName is the name of the tables, one in each family.
const tableName = "millrace-services"

// setNumber is the number of a set in the tables.
type setNumber uint8

// The sets. "Fronts" map address, protocol and port of a service to a chain; node ports map protocol and port.
const (
	fronts           setNumber = iota
	frontsInside               // of services with externalTrafficPolicy Local: for packets from the node and from pods
	frontsLocal                // of the same services: for packets from outside
	nodePorts                  //
	nodePortsInside            //
	nodePortsLocal             //
	refused                    // fronts without endpoints, to a chain that rejects or drops
	refusedNodePorts           //
	targets                    // from an external address to the service's cluster IP
	nodeTargets                // from a node port to the service's cluster IP
	endpointsMap               // from service and number to an endpoint
	clusterIPs                 // cluster IPs: other ports than those of the service are rejected
	nodeIPs                    // the node's addresses on which node ports are open
	firewalled                 // fronts that only some sources may use
	allowed                    // firewalled fronts with their allowed sources
	affine                     // endpoints of services with affinity
	hairpin                    // pairs of the same address: endpoints on this node
	affinity                   // the endpoint that a client used last: written by the kernel
	numberOfSets
)

var setNames = [numberOfSets]string{
	"fronts", "fronts-inside", "fronts-local", "node-ports", "node-ports-inside", "node-ports-local", "refused", "refused-node-ports",
	"targets", "node-targets", "endpoints", "cluster-ips", "node-ips", "firewalled", "allowed", "affine", "hairpin", "affinity",
}

// sets returns the sets of a family.
func (f family) sets() [numberOfSets]nft.Set {
	address := nft.Address4
	if f.six {
		address = nft.Address6
	}
	port := []nft.Type{nft.Protocol, nft.Port}
	front := []nft.Type{address, nft.Protocol, nft.Port}
	with := func(list []nft.Type, more ...nft.Type) []nft.Type {
		return append(append([]nft.Type(nil), list...), more...)
	}
	all := [numberOfSets]nft.Set{
		targets:      {Key: front, Value: front},
		nodeTargets:  {Key: port, Value: front},
		endpointsMap: {Key: with(front, nft.Integer), Value: []nft.Type{address, nft.Port}},
		clusterIPs:   {Key: []nft.Type{address}},
		nodeIPs:      {Key: []nft.Type{address}},
		firewalled:   {Key: front},
		allowed:      {Key: with(front, address), Interval: true},
		affine:       {Key: with(front, nft.Integer, address, nft.Port)},
		hairpin:      {Key: []nft.Type{address, address}},
		affinity:     {Key: append([]nft.Type{address}, with(front, nft.Integer)...), Value: []nft.Type{address, nft.Port}, Dynamic: true, Timeout: true, Size: 1 << 18},
	}
	for _, n := range []setNumber{fronts, frontsInside, frontsLocal, refused} {
		all[n] = nft.Set{Key: front, Verdict: true}
	}
	for _, n := range []setNumber{nodePorts, nodePortsInside, nodePortsLocal, refusedNodePorts} {
		all[n] = nft.Set{Key: port, Verdict: true}
	}
	for n := range all {
		all[n].Name = setNames[n]
	}
	return all
}

// Names of chains that every table has.
const (
	chainServices = "services"
	chainFirewall = "firewall"
	chainRefuse   = "refuse"
)

// The kernel's priorities of hooks: before and after it translates destinations, and where it translates sources.
const (
	beforeDestination = -110
	destination       = -100
	afterDestination  = -90
	source            = 100
)

// fixedChain is a chain that every table has, with its rules.
type fixedChain struct {
	nft.Chain
	rules [][]nft.Expression
}

func (f family) chains() []fixedChain {
	jump := func(to string) [][]nft.Expression { return [][]nft.Expression{{nft.Jump(to)}} }
	fresh := func(to string) [][]nft.Expression {
		return [][]nft.Expression{{
			nft.Conntrack(unix.NFT_CT_STATE, nft.R0), nft.Masked(nft.R0, nft.Native(stateNew), nft.Native(0)), nft.Unequal(nft.R0, nft.Native(0)), nft.Jump(to),
		}}
	}
	return []fixedChain{
		{nft.Chain{Name: kindNames[kindReject]}, [][]nft.Expression{{nft.Reject(f.nft())}}},
		{nft.Chain{Name: kindNames[kindDrop]}, [][]nft.Expression{{nft.Drop()}}},
		{nft.Chain{Name: kindNames[kindExternalLocal]}, f.local(f.serviceKey(nft.R0), frontsInside, frontsLocal)},
		{nft.Chain{Name: kindNames[kindNodeLocal]}, f.local(ports(nft.R0), nodePortsInside, nodePortsLocal)},
		{nft.Chain{Name: chainServices}, f.both(fronts, nodePorts)},
		{nft.Chain{Name: chainFirewall}, f.firewall()},
		{nft.Chain{Name: chainRefuse}, append(f.both(refused, refusedNodePorts), []nft.Expression{f.destination(nft.R0), nft.In(setNames[clusterIPs], nft.R0), nft.Goto(kindNames[kindReject])})},
		{nft.Chain{Name: "prerouting", Type: "nat", Hook: unix.NF_INET_PRE_ROUTING, Priority: destination}, jump(chainServices)},
		{nft.Chain{Name: "output", Type: "nat", Hook: unix.NF_INET_LOCAL_OUT, Priority: destination}, jump(chainServices)},
		{nft.Chain{Name: "postrouting", Type: "nat", Hook: unix.NF_INET_POST_ROUTING, Priority: source}, f.masquerade()},
		{nft.Chain{Name: "filter-prerouting", Type: "filter", Hook: unix.NF_INET_PRE_ROUTING, Priority: beforeDestination}, fresh(chainFirewall)},
		{nft.Chain{Name: "filter-input", Type: "filter", Hook: unix.NF_INET_LOCAL_IN, Priority: beforeDestination}, fresh(chainRefuse)},
		{nft.Chain{Name: "filter-forward", Type: "filter", Hook: unix.NF_INET_FORWARD, Priority: beforeDestination}, fresh(chainRefuse)},
		{nft.Chain{Name: "filter-output-firewall", Type: "filter", Hook: unix.NF_INET_LOCAL_OUT, Priority: beforeDestination}, fresh(chainFirewall)},
		{nft.Chain{Name: "filter-output", Type: "filter", Hook: unix.NF_INET_LOCAL_OUT, Priority: afterDestination}, fresh(chainRefuse)},
	}
}

// stateNew is the state of a packet that begins a connection, as a bit.
const stateNew = 1 << 3

// both looks up fronts, and on the node's own addresses node ports.
func (f family) both(fronts, nodePorts setNumber) [][]nft.Expression {
	byPort := append([]nft.Expression{f.destination(nft.R0), nft.In(setNames[nodeIPs], nft.R0)}, ports(nft.R0)...)
	return [][]nft.Expression{
		append(f.serviceKey(nft.R0), nft.LookupVerdict(setNames[fronts], nft.R0)),
		append(byPort, nft.LookupVerdict(setNames[nodePorts], nft.R0)),
	}
}

// local sends packets from the node and from pods to all endpoints, and others to the endpoints on this node.
func (f family) local(key []nft.Expression, inside, outside setNumber) [][]nft.Expression {
	with := func(first []nft.Expression, set setNumber) []nft.Expression {
		return append(append(first[:len(first):len(first)], key...), nft.LookupVerdict(setNames[set], nft.R0))
	}
	own := []nft.Expression{nft.Fib(unix.NFTA_FIB_F_SADDR, unix.NFT_FIB_RESULT_ADDRTYPE, nft.R0), nft.Equal(nft.R0, nft.Native(unix.RTN_LOCAL))}
	all := [][]nft.Expression{append(own[:2:2], mark()...), with(own, inside)}
	if f.pods.IsValid() {
		all = append(all, with(f.fromPods(false), inside))
	}
	return append(all, with(nil, outside))
}

// firewall drops packets from sources that may not use a load balancer.
func (f family) firewall() [][]nft.Expression {
	key := f.serviceKey(nft.R0)
	rule := append(key, nft.In(setNames[firewalled], nft.R0), f.source(nft.R0+f.registers()+2), nft.NotIn(setNames[allowed], nft.R0), nft.Drop())
	return [][]nft.Expression{rule}
}

// masquerade masquerades marked packets, and those that return to the endpoint that sent them.
func (f family) masquerade() [][]nft.Expression {
	bit := nft.Native(masqueradeMark)
	return [][]nft.Expression{
		{
			nft.Meta(unix.NFT_META_MARK, nft.R0), nft.Masked(nft.R0, bit, nft.Native(0)), nft.Unequal(nft.R0, nft.Native(0)),
			nft.Meta(unix.NFT_META_MARK, nft.R0), nft.Masked(nft.R0, nft.Native(^uint32(masqueradeMark)), nft.Native(0)), nft.SetMeta(unix.NFT_META_MARK, nft.R0),
			nft.Masquerade(),
		},
		{f.source(nft.R0), f.destination(nft.R0 + f.registers()), nft.In(setNames[hairpin], nft.R0), nft.Masquerade()},
	}
}

// table returns the family and name of the table.
func (f family) table() nft.Table {
	return nft.Table{Family: f.nft(), Name: cmp.Or(f.name, tableName)}
}

// build writes the parts that every table has.
func (f family) build(b *nft.Batch) {
	t := f.table()
	b.AddTable(t, f.layoutDigest())
	f.fill(b)
}

func (f family) fill(b *nft.Batch) {
	t, sets, chains := f.table(), f.sets(), f.chains()
	for i := range sets {
		b.AddSet(t, &sets[i])
	}
	for _, c := range chains {
		b.AddChain(t, c.Chain)
	}
	for _, c := range chains {
		for _, r := range c.rules {
			b.AddRule(t, c.Name, r...)
		}
	}
}

// layoutDigest is the comment of a table: a digest of the parts that every table has, and of how chains choose. A table
// with another digest is replaced.
func (f family) layoutDigest() string {
	var b nft.Batch
	f.fill(&b)
	for _, c := range []chain{{kind: kindCluster, n: 1}, {kind: kindExternal, n: 1, affinityTimeout: 1}, {kind: kindNode, scope: here, n: 1}} {
		for _, r := range f.rules(c) {
			b.AddRule(f.table(), c.name(), r...)
		}
	}
	sum := sha256.Sum256(b.Bytes())
	return fmt.Sprintf("services on this node, make %s", hex.EncodeToString(sum[:8]))
}
