//go:build linux

package nft

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Table is the family and the name of a table.
type Table struct {
	Family Family
	Name   string
}

// Family selects the packets that a table receives.
type Family uint8

// The families.
const (
	IPv4   Family = unix.NFPROTO_IPV4
	IPv6   Family = unix.NFPROTO_IPV6
	Inet   Family = unix.NFPROTO_INET
	Bridge Family = unix.NFPROTO_BRIDGE
)

// Batch is a transaction, a list of messages. The zero value is empty.
type Batch struct {
	buf   attributes
	steps []string // what each message does, for errors
	last  int      // the offset of the last message
	sets  uint32
}

// Len returns the number of messages.
func (b *Batch) Len() int { return len(b.steps) }

// Bytes returns the messages as they are sent to the kernel. The caller must not modify them.
func (b *Batch) Bytes() []byte { return b.buf }

// firstSequence is the sequence number of the first message. The batch's begin message has the number before.
const firstSequence = 1

// message writes one message of nf_tables.
func (b *Batch) message(kind uint16, flags uint16, family Family, what string, body func(*attributes)) {
	b.last = len(b.buf)
	b.steps = append(b.steps, what)
	b.raw(unix.NFNL_SUBSYS_NFTABLES<<8|kind, unix.NLM_F_REQUEST|flags, uint32(firstSequence+len(b.steps)-1), uint8(family), 0, body)
}

// raw writes a netlink message with the header of nfnetlink.
func (b *Batch) raw(kind, flags uint16, sequence uint32, family uint8, resource uint16, body func(*attributes)) {
	at := len(b.buf)
	b.buf = binary.NativeEndian.AppendUint32(b.buf, 0)
	b.buf = binary.NativeEndian.AppendUint16(b.buf, kind)
	b.buf = binary.NativeEndian.AppendUint16(b.buf, flags)
	b.buf = binary.NativeEndian.AppendUint32(b.buf, sequence)
	b.buf = binary.NativeEndian.AppendUint32(b.buf, 0)
	b.buf = append(b.buf, family, unix.NFNETLINK_V0)
	b.buf = binary.BigEndian.AppendUint16(b.buf, resource)
	if body != nil {
		body(&b.buf)
	}
	binary.NativeEndian.PutUint32(b.buf[at:], uint32(len(b.buf)-at))
}

// AddTable makes a table if it does not exist. comment is stored with it; it identifies the layout of the table.
func (b *Batch) AddTable(t Table, comment string) {
	b.message(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, t.Family, "add table "+t.Name, func(a *attributes) {
		a.text(unix.NFTA_TABLE_NAME, t.Name)
		if comment != "" {
			a.bytes(tableUserData, commentData(comment))
		}
	})
}

// DeleteTable removes a table and everything in it. It must exist.
func (b *Batch) DeleteTable(t Table) {
	b.message(unix.NFT_MSG_DELTABLE, 0, t.Family, "delete table "+t.Name, func(a *attributes) {
		a.text(unix.NFTA_TABLE_NAME, t.Name)
	})
}

// Chain is a chain of rules. A chain with a Type is called by the kernel at a hook, others by rules of other chains.
type Chain struct {
	Name     string
	Type     string // filter or nat
	Hook     uint32
	Priority int32
}

// AddChain makes a chain if it does not exist.
func (b *Batch) AddChain(t Table, c Chain) {
	b.message(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, t.Family, "add chain "+c.Name, func(a *attributes) {
		a.text(unix.NFTA_CHAIN_TABLE, t.Name)
		a.text(unix.NFTA_CHAIN_NAME, c.Name)
		if c.Type == "" {
			return
		}
		a.nest(unix.NFTA_CHAIN_HOOK, func() {
			a.number(unix.NFTA_HOOK_HOOKNUM, c.Hook)
			a.number(unix.NFTA_HOOK_PRIORITY, uint32(c.Priority))
		})
		a.text(unix.NFTA_CHAIN_TYPE, c.Type)
	})
}

// DeleteChain removes a chain, which must be empty and not referenced.
func (b *Batch) DeleteChain(t Table, name string) {
	b.message(unix.NFT_MSG_DELCHAIN, 0, t.Family, "delete chain "+name, func(a *attributes) {
		a.text(unix.NFTA_CHAIN_TABLE, t.Name)
		a.text(unix.NFTA_CHAIN_NAME, name)
	})
}

// FlushChain removes all rules of a chain.
func (b *Batch) FlushChain(t Table, name string) {
	b.message(unix.NFT_MSG_DELRULE, 0, t.Family, "flush chain "+name, func(a *attributes) {
		a.text(unix.NFTA_RULE_TABLE, t.Name)
		a.text(unix.NFTA_RULE_CHAIN, name)
	})
}

// AddRule appends a rule to a chain.
func (b *Batch) AddRule(t Table, chain string, rule ...Expression) {
	b.message(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, t.Family, "add a rule to "+chain, func(a *attributes) {
		a.text(unix.NFTA_RULE_TABLE, t.Name)
		a.text(unix.NFTA_RULE_CHAIN, chain)
		a.nest(unix.NFTA_RULE_EXPRESSIONS, func() {
			for _, e := range rule {
				a.nest(unix.NFTA_LIST_ELEM, func() { e(a) })
			}
		})
	})
}

// tableUserData is NFTA_TABLE_USERDATA, which the unix package does not have.
const tableUserData = 6

// commentData encodes a comment as the program nft does: type 0, a length, and the text with a zero byte.
func commentData(comment string) []byte {
	comment = comment[:min(len(comment), 250)]
	return append(append([]byte{0, byte(len(comment) + 1)}, comment...), 0)
}

// errorFor returns the error for the message with a sequence number.
func (b *Batch) errorFor(sequence uint32, number unix.Errno) error {
	what := "the transaction"
	if i := int(sequence) - firstSequence; i >= 0 && i < len(b.steps) {
		what = b.steps[i]
	}
	return fmt.Errorf("nf_tables: %s: %w", what, number)
}
