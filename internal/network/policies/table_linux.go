package policies

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/millrace/millrace/internal/network/nft"
)

const tableName = "millrace-policies"

// Names of sets and maps that every table has.
var podChainSets = [2]string{ingress: "to", egress: "from"}

const podsSetName = "own"

// The kernel's priorities of the two chains that filter forwarded packets: after services have translated them.
const (
	prioritySender   = 0
	priorityReceiver = 1
)

// Connection states that are always accepted, as bits: established and related.
const stateKnown = 1<<1 | 1<<2

// table is the table of one family, with its last written content.
type table struct {
	six     bool
	written *wanted // nil: unknown
}

func (t *table) nft() nft.Table {
	if t.six {
		return nft.Table{Family: nft.IPv6, Name: tableName}
	}
	return nft.Table{Family: nft.IPv4, Name: tableName}
}

// write adds the changes of the table to a batch. If only elements of sets differ, they are changed one by one. If
// rules or ranges differ, the table is written again in the same transaction.
func (t *table) write(b *nft.Batch, want *wanted, exists bool) {
	if t.written != nil && t.written.sameRules(want) {
		t.change(b, want)
		return
	}
	if exists {
		b.DeleteTable(t.nft())
	}
	if len(want.podAddresses) > 0 {
		t.build(b, want)
	}
}

// sameRules reports whether two tables differ only in elements that can be changed one by one.
func (w *wanted) sameRules(other *wanted) bool {
	if (len(w.podAddresses) == 0) != (len(other.podAddresses) == 0) || len(w.chains) != len(other.chains) || len(w.sets) != len(other.sets) {
		return false
	}
	for name, c := range w.chains {
		if o, ok := other.chains[name]; !ok || !c.same(o) {
			return false
		}
	}
	for name, s := range w.sets {
		o, ok := other.sets[name]
		if !ok || s.kind != o.kind {
			return false
		}
		if (s.kind == ofBlocks || s.kind == ofPorts) && !s.same(o) {
			return false
		}
	}
	return true
}

// change writes the elements that differ.
func (t *table) change(b *nft.Batch, want *wanted) {
	for d := range want.podChains {
		differ(b, t.nft(), podChainSets[d], t.written.podChainElements(d), want.podChainElements(d))
	}
	differ(b, t.nft(), podsSetName, t.written.podElements(), want.podElements())
	for name, s := range want.sets {
		if s.kind == ofAddresses || s.kind == ofNamed {
			differ(b, t.nft(), name, t.written.sets[name].elements(), s.elements())
		}
	}
}

func differ(b *nft.Batch, t nft.Table, set string, have, want []nft.Element) {
	old := make(map[nft.Element]bool, len(have))
	for _, e := range have {
		old[e] = true
	}
	var fresh, gone []nft.Element
	for _, e := range want {
		if !old[e] {
			fresh = append(fresh, e)
		}
		delete(old, e)
	}
	for e := range old {
		gone = append(gone, e)
	}
	if gone != nil {
		b.DeleteElements(t, set, gone)
	}
	if fresh != nil {
		b.AddElements(t, set, fresh)
	}
}

// build writes the whole table.
func (t *table) build(b *nft.Batch, want *wanted) {
	own := t.nft()
	b.AddTable(own, t.layoutDigest())
	for _, s := range t.commonSets() {
		b.AddSet(own, &s)
	}
	for name, s := range want.sets {
		b.AddSet(own, t.describe(name, s))
		if all := s.elements(); len(all) > 0 {
			b.AddElements(own, name, all)
		}
	}
	for name := range want.chains {
		b.AddChain(own, nft.Chain{Name: name})
	}
	for name, c := range want.chains {
		for _, r := range c.rules {
			b.AddRule(own, name, t.rule(c.direction, r)...)
		}
		if c.drop {
			b.AddRule(own, name, nft.Drop())
		}
	}
	for d := range want.podChains {
		if all := want.podChainElements(d); len(all) > 0 {
			b.AddElements(own, podChainSets[d], all)
		}
	}
	b.AddElements(own, podsSetName, want.podElements())
	t.hooks(b)
}

// commonSets returns the sets that every table has.
func (t *table) commonSets() []nft.Set {
	return []nft.Set{
		{Name: podChainSets[ingress], Key: []nft.Type{t.address()}, Verdict: true},
		{Name: podChainSets[egress], Key: []nft.Type{t.address()}, Verdict: true},
		{Name: podsSetName, Key: []nft.Type{t.address(), t.address()}},
	}
}

// hooks adds the chains that the kernel calls: first for what the sender may send, then for what the receiver may
// receive.
func (t *table) hooks(b *nft.Batch) {
	own, priorities := t.nft(), [2]int32{ingress: priorityReceiver, egress: prioritySender}
	for d, priority := range priorities {
		name := "forward-" + podChainSets[d]
		b.AddChain(own, nft.Chain{Name: name, Type: "filter", Hook: unix.NF_INET_FORWARD, Priority: priority})
		for _, rule := range t.policyRules(direction(d)) {
			b.AddRule(own, name, rule...)
		}
	}
}

func (t *table) policyRules(d direction) [][]nft.Expression {
	return [][]nft.Expression{
		{nft.Conntrack(unix.NFT_CT_STATE, nft.R0), nft.Masked(nft.R0, nft.Native(stateKnown), nft.Native(0)), nft.Unequal(nft.R0, nft.Native(0)), nft.Accept()},
		{t.source(nft.R0), t.destination(nft.R0 + t.registers()), nft.In(podsSetName, nft.R0), nft.Accept()},
		{t.podAddress(d), nft.LookupVerdict(podChainSets[d], nft.R0)},
	}
}

// podAddress reads the address of the pod to whose policies a direction belongs, and peerAddress the other address.
func (t *table) podAddress(d direction) nft.Expression {
	if d == ingress {
		return t.destination(nft.R0)
	}
	return t.source(nft.R0)
}

func (t *table) peerAddress(d direction) nft.Expression { return t.podAddress(1 - d) }

// rule returns the expressions of a rule.
func (t *table) rule(d direction, r rule) []nft.Expression {
	if r.jump != "" {
		return []nft.Expression{nft.Jump(r.jump)}
	}
	var all []nft.Expression
	if r.peers != "" {
		all = append(all, t.peerAddress(d), nft.In(r.peers, nft.R0))
	}
	port := func(at nft.Register) []nft.Expression {
		return []nft.Expression{nft.Meta(unix.NFT_META_L4PROTO, at), nft.Transport(2, 2, at+1)}
	}
	if r.ports != "" {
		all = append(append(all, port(nft.R0)...), nft.In(r.ports, nft.R0))
	}
	if r.named != "" {
		all = append(append(all, t.destination(nft.R0)), port(nft.R0+t.registers())...)
		all = append(all, nft.In(r.named, nft.R0))
	}
	return append(all, nft.Accept())
}

func (t *table) address() nft.Type {
	if t.six {
		return nft.Address6
	}
	return nft.Address4
}

// registers returns the number of registers of an address.
func (t *table) registers() nft.Register {
	if t.six {
		return 4
	}
	return 1
}

func (t *table) source(to nft.Register) nft.Expression {
	if t.six {
		return nft.Network(8, 16, to)
	}
	return nft.Network(12, 4, to)
}

func (t *table) destination(to nft.Register) nft.Expression {
	if t.six {
		return nft.Network(24, 16, to)
	}
	return nft.Network(16, 4, to)
}

func (t *table) describe(name string, s set) *nft.Set {
	out := &nft.Set{Name: name}
	switch s.kind {
	case ofAddresses:
		out.Key = []nft.Type{t.address()}
	case ofBlocks:
		out.Key, out.Interval = []nft.Type{t.address()}, true
	case ofPorts:
		out.Key, out.Interval = []nft.Type{nft.Protocol, nft.Port}, true
	case ofNamed:
		out.Key = []nft.Type{t.address(), nft.Protocol, nft.Port}
	}
	return out
}

// layoutDigest is the comment of a table: a digest of the parts that every table has. A table with another digest is
// replaced.
func (t *table) layoutDigest() string {
	var b nft.Batch
	for _, s := range t.commonSets() {
		b.AddSet(t.nft(), &s)
	}
	t.hooks(&b)
	for _, r := range []rule{{jump: "x"}, {peers: "x", ports: "y"}, {named: "x"}} {
		b.AddRule(t.nft(), "x", t.rule(ingress, r)...)
	}
	sum := sha256.Sum256(b.Bytes())
	return "policies of this node's pods, make " + hex.EncodeToString(sum[:8])
}

// rules returns the number of rules of each chain that has any.
func (t *table) rules() map[string]int {
	out := map[string]int{}
	for d := range podChainSets {
		out["forward-"+podChainSets[d]] = len(t.policyRules(direction(d)))
	}
	for name, c := range t.written.chains {
		if n := len(c.rules); n > 0 {
			out[name] = n
		}
		if c.drop {
			out[name]++
		}
	}
	return out
}

func (w *wanted) podChainElements(d int) []nft.Element {
	var out []nft.Element
	for a, to := range w.podChains[d] {
		out = append(out, nft.Element{Key: string(a.AsSlice()), Goto: to})
	}
	return out
}

func (w *wanted) podElements() []nft.Element {
	var out []nft.Element
	for a := range w.podAddresses {
		out = append(out, nft.Element{Key: string(a.AsSlice()) + string(a.AsSlice())})
	}
	return out
}

func (s set) elements() []nft.Element {
	var out []nft.Element
	switch s.kind {
	case ofAddresses:
		for a := range s.addresses {
			out = append(out, nft.Element{Key: string(a.AsSlice())})
		}
	case ofBlocks:
		return nft.Ranges(s.blocks)
	case ofPorts:
		for _, r := range s.ports {
			out = append(out, nft.Element{Key: portKey(r.protocol, r.first), End: portKey(r.protocol, r.last)})
		}
	case ofNamed:
		for n := range s.named {
			out = append(out, nft.Element{Key: addressed(n.address, n.protocol, n.port)})
		}
	}
	return out
}

// portKey is a protocol and a port, each in four bytes as in the kernel's registers.
func portKey(protocol uint8, port uint16) string {
	return string([]byte{protocol, 0, 0, 0, byte(port >> 8), byte(port), 0, 0})
}

func addressed(a netip.Addr, protocol uint8, port uint16) string {
	return string(a.AsSlice()) + portKey(protocol, port)
}
