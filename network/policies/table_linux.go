package policies

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/millrace/millrace/network/nft"
)

const tableName = "millrace-policies"

// The names of what is in every table.
var leadNames = [2]string{ingress: "to", egress: "from"}

const ownName = "own"

// The kernel's priorities of the two chains that judge forwarded packets: after services have translated them.
const (
	judgeSender   = 0
	judgeReceiver = 1
)

// The states of connections that are let pass, as bits: established and related.
const stateKnown = 1<<1 | 1<<2

// table is the table of one family, as it was left.
type table struct {
	six  bool
	have *wanted // nil: not known
}

func (t *table) nft() nft.Table {
	if t.six {
		return nft.Table{Family: nft.IPv6, Name: tableName}
	}
	return nft.Table{Family: nft.IPv4, Name: tableName}
}

// write adds to a batch what makes the table as it should be. Only elements are changed one by one; a table in which rules or ranges
// change is written anew in the same transaction.
func (t *table) write(b *nft.Batch, want *wanted, exists bool) {
	if t.have != nil && t.have.shapedAs(want) {
		t.change(b, want)
		return
	}
	if exists {
		b.DeleteTable(t.nft())
	}
	if len(want.own) > 0 {
		t.build(b, want)
	}
}

// shapedAs tells whether only elements that can be changed one by one differ.
func (w *wanted) shapedAs(other *wanted) bool {
	if (len(w.own) == 0) != (len(other.own) == 0) || len(w.chains) != len(other.chains) || len(w.sets) != len(other.sets) {
		return false
	}
	for name, c := range w.chains {
		if o, ok := other.chains[name]; !ok || !c.same(o) {
			return false
		}
	}
	for name, s := range w.sets {
		o, ok := other.sets[name]
		if !ok || s.shape != o.shape {
			return false
		}
		if (s.shape == ofBlocks || s.shape == ofPorts) && !s.same(o) {
			return false
		}
	}
	return true
}

// change writes the elements that differ.
func (t *table) change(b *nft.Batch, want *wanted) {
	for d := range want.leads {
		differ(b, t.nft(), leadNames[d], t.have.leadElements(d), want.leadElements(d))
	}
	differ(b, t.nft(), ownName, t.have.ownElements(), want.ownElements())
	for name, s := range want.sets {
		if s.shape == ofAddresses || s.shape == ofNamed {
			differ(b, t.nft(), name, t.have.sets[name].elements(), s.elements())
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
	b.AddTable(own, t.make())
	for _, s := range t.frame() {
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
	for d := range want.leads {
		if all := want.leadElements(d); len(all) > 0 {
			b.AddElements(own, leadNames[d], all)
		}
	}
	b.AddElements(own, ownName, want.ownElements())
	t.hooks(b)
}

// frame is the sets that every table has.
func (t *table) frame() []nft.Set {
	return []nft.Set{
		{Name: leadNames[ingress], Key: []nft.Type{t.address()}, Verdict: true},
		{Name: leadNames[egress], Key: []nft.Type{t.address()}, Verdict: true},
		{Name: ownName, Key: []nft.Type{t.address(), t.address()}},
	}
}

// hooks are the chains that the kernel calls: first for what the sender may send, then for what the receiver may receive.
func (t *table) hooks(b *nft.Batch) {
	own, priorities := t.nft(), [2]int32{ingress: judgeReceiver, egress: judgeSender}
	for d, priority := range priorities {
		name := "forward-" + leadNames[d]
		b.AddChain(own, nft.Chain{Name: name, Type: "filter", Hook: unix.NF_INET_FORWARD, Priority: priority})
		for _, rule := range t.judge(direction(d)) {
			b.AddRule(own, name, rule...)
		}
	}
}

func (t *table) judge(d direction) [][]nft.Expression {
	return [][]nft.Expression{
		{nft.Conntrack(unix.NFT_CT_STATE, nft.R0), nft.Masked(nft.R0, nft.Native(stateKnown), nft.Native(0)), nft.Unequal(nft.R0, nft.Native(0)), nft.Accept()},
		{t.source(nft.R0), t.destination(nft.R0 + t.words()), nft.In(ownName, nft.R0), nft.Accept()},
		{t.ownSide(d), nft.Follow(leadNames[d], nft.R0)},
	}
}

// ownSide is the address of the pod whose policies a direction is about, and farSide the other one.
func (t *table) ownSide(d direction) nft.Expression {
	if d == ingress {
		return t.destination(nft.R0)
	}
	return t.source(nft.R0)
}

func (t *table) farSide(d direction) nft.Expression { return t.ownSide(1 - d) }

// rule is a rule in the kernel's words.
func (t *table) rule(d direction, r rule) []nft.Expression {
	if r.jump != "" {
		return []nft.Expression{nft.Jump(r.jump)}
	}
	var all []nft.Expression
	if r.peers != "" {
		all = append(all, t.farSide(d), nft.In(r.peers, nft.R0))
	}
	port := func(at nft.Register) []nft.Expression {
		return []nft.Expression{nft.Meta(unix.NFT_META_L4PROTO, at), nft.Transport(2, 2, at+1)}
	}
	if r.ports != "" {
		all = append(append(all, port(nft.R0)...), nft.In(r.ports, nft.R0))
	}
	if r.named != "" {
		all = append(append(all, t.destination(nft.R0)), port(nft.R0+t.words())...)
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

// words is the number of registers of an address.
func (t *table) words() nft.Register {
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
	switch s.shape {
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

// make is the comment of a table: a digest of what every table has. A table of another make is replaced.
func (t *table) make() string {
	var b nft.Batch
	for _, s := range t.frame() {
		b.AddSet(t.nft(), &s)
	}
	t.hooks(&b)
	for _, r := range []rule{{jump: "x"}, {peers: "x", ports: "y"}, {named: "x"}} {
		b.AddRule(t.nft(), "x", t.rule(ingress, r)...)
	}
	sum := sha256.Sum256(b.Bytes())
	return "policies of this node's pods, make " + hex.EncodeToString(sum[:8])
}

// rules is how many rules each chain has, of those that have any.
func (t *table) rules() map[string]int {
	out := map[string]int{}
	for d := range leadNames {
		out["forward-"+leadNames[d]] = len(t.judge(direction(d)))
	}
	for name, c := range t.have.chains {
		if n := len(c.rules); n > 0 {
			out[name] = n
		}
		if c.drop {
			out[name]++
		}
	}
	return out
}

func (w *wanted) leadElements(d int) []nft.Element {
	var out []nft.Element
	for a, to := range w.leads[d] {
		out = append(out, nft.Element{Key: string(a.AsSlice()), Goto: to})
	}
	return out
}

func (w *wanted) ownElements() []nft.Element {
	var out []nft.Element
	for a := range w.own {
		out = append(out, nft.Element{Key: string(a.AsSlice()) + string(a.AsSlice())})
	}
	return out
}

func (s set) elements() []nft.Element {
	var out []nft.Element
	switch s.shape {
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

// portKey is a protocol and a port, each in words of four bytes as the kernel's registers are.
func portKey(protocol uint8, port uint16) string {
	return string([]byte{protocol, 0, 0, 0, byte(port >> 8), byte(port), 0, 0})
}

func addressed(a netip.Addr, protocol uint8, port uint16) string {
	return string(a.AsSlice()) + portKey(protocol, port)
}
