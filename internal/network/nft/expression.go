//go:build linux

package nft

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// Expression is a part of a rule: it reads a value into registers, compares registers, or acts on the packet. If a
// comparison fails, the rest of the rule is skipped.
type Expression func(*attributes)

// Register is one of sixteen registers of four bytes. Longer values use several consecutive ones.
type Register uint32

// R0 is the first register; R0+1 the next.
const R0 Register = unix.NFT_REG32_00

func expression(name string, body func(*attributes)) Expression {
	return func(a *attributes) {
		a.text(unix.NFTA_EXPR_NAME, name)
		a.nest(unix.NFTA_EXPR_DATA, func() { body(a) })
	}
}

// Meta reads a property of the packet, such as unix.NFT_META_L4PROTO.
func Meta(key uint32, to Register) Expression {
	return expression("meta", func(a *attributes) {
		a.number(unix.NFTA_META_DREG, uint32(to))
		a.number(unix.NFTA_META_KEY, key)
	})
}

// SetMeta writes a property of the packet, such as unix.NFT_META_MARK.
func SetMeta(key uint32, from Register) Expression {
	return expression("meta", func(a *attributes) {
		a.number(unix.NFTA_META_KEY, key)
		a.number(unix.NFTA_META_SREG, uint32(from))
	})
}

// Network reads bytes of the network header, and Transport of the transport header.
func Network(offset, size uint32, to Register) Expression {
	return payload(unix.NFT_PAYLOAD_NETWORK_HEADER, offset, size, to)
}

// Transport reads bytes of the transport header.
func Transport(offset, size uint32, to Register) Expression {
	return payload(unix.NFT_PAYLOAD_TRANSPORT_HEADER, offset, size, to)
}

func payload(base, offset, size uint32, to Register) Expression {
	return expression("payload", func(a *attributes) {
		a.number(unix.NFTA_PAYLOAD_DREG, uint32(to))
		a.number(unix.NFTA_PAYLOAD_BASE, base)
		a.number(unix.NFTA_PAYLOAD_OFFSET, offset)
		a.number(unix.NFTA_PAYLOAD_LEN, size)
	})
}

// Equal continues the rule if a register has this value.
func Equal(in Register, value []byte) Expression { return compare(in, unix.NFT_CMP_EQ, value) }

// Unequal continues the rule if a register does not have this value.
func Unequal(in Register, value []byte) Expression { return compare(in, unix.NFT_CMP_NEQ, value) }

func compare(in Register, operator uint32, value []byte) Expression {
	return expression("cmp", func(a *attributes) {
		a.number(unix.NFTA_CMP_SREG, uint32(in))
		a.number(unix.NFTA_CMP_OP, operator)
		a.value(unix.NFTA_CMP_DATA, string(value))
	})
}

// Masked clears all bits that are not in mask, and then inverts those in flip.
func Masked(in Register, mask, flip []byte) Expression {
	return expression("bitwise", func(a *attributes) {
		a.number(unix.NFTA_BITWISE_SREG, uint32(in))
		a.number(unix.NFTA_BITWISE_DREG, uint32(in))
		a.number(unix.NFTA_BITWISE_LEN, uint32(len(mask)))
		a.value(unix.NFTA_BITWISE_MASK, string(mask))
		a.value(unix.NFTA_BITWISE_XOR, string(flip))
	})
}

// Load puts a value into a register.
func Load(to Register, value []byte) Expression {
	return expression("immediate", func(a *attributes) {
		a.number(unix.NFTA_IMMEDIATE_DREG, uint32(to))
		a.value(unix.NFTA_IMMEDIATE_DATA, string(value))
	})
}

// Verdict codes.
const (
	accept = 1
	drop   = 0
	jump   = -3 & 0xffffffff
	leave  = -5 & 0xffffffff
)

func verdict(code uint32, chain string) Expression {
	return expression("immediate", func(a *attributes) {
		a.number(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT)
		a.nest(unix.NFTA_IMMEDIATE_DATA, func() { a.verdict(code, chain) })
	})
}

// Accept lets the packet pass this hook's chain.
func Accept() Expression { return verdict(accept, "") }

// Drop discards the packet.
func Drop() Expression { return verdict(drop, "") }

// Return returns to the calling chain.
func Return() Expression { return verdict(leave, "") }

// Jump calls another chain, which may return.
func Jump(chain string) Expression { return verdict(jump, chain) }

// Goto continues in another chain, which does not return.
func Goto(chain string) Expression { return verdict(gotoChain, chain) }

// In continues the rule if a set has the key.
func In(set string, key Register) Expression { return lookup(set, key, nil, false) }

// NotIn continues the rule if a set does not have the key.
func NotIn(set string, key Register) Expression { return lookup(set, key, nil, true) }

// Lookup reads the value of a key in a map; without such a key the rest of the rule is skipped.
func Lookup(set string, key, to Register) Expression {
	return lookup(set, key, func(a *attributes) { a.number(unix.NFTA_LOOKUP_DREG, uint32(to)) }, false)
}

// LookupVerdict continues in the chain that a map has for the key.
func LookupVerdict(set string, key Register) Expression {
	return lookup(set, key, func(a *attributes) { a.number(unix.NFTA_LOOKUP_DREG, unix.NFT_REG_VERDICT) }, false)
}

func lookup(set string, key Register, to func(*attributes), invert bool) Expression {
	return expression("lookup", func(a *attributes) {
		a.text(unix.NFTA_LOOKUP_SET, set)
		a.number(unix.NFTA_LOOKUP_SREG, uint32(key))
		if to != nil {
			to(a)
		}
		if invert {
			a.number(unix.NFTA_LOOKUP_FLAGS, unix.NFT_LOOKUP_F_INV)
		}
	})
}

// AddToMap adds a key with its value to a dynamic map. The kernel removes it after the timeout.
func AddToMap(set string, key, value Register, timeout time.Duration) Expression {
	return dynamic(set, unix.NFT_DYNSET_OP_ADD, key, func(a *attributes) {
		a.number(unix.NFTA_DYNSET_SREG_DATA, uint32(value))
		a.long(unix.NFTA_DYNSET_TIMEOUT, uint64(timeout.Milliseconds()))
	})
}

// UpdateInMap adds a key with its value to a dynamic map, or restarts the timeout of an existing one.
func UpdateInMap(set string, key, value Register, timeout time.Duration) Expression {
	return dynamic(set, unix.NFT_DYNSET_OP_UPDATE, key, func(a *attributes) {
		a.number(unix.NFTA_DYNSET_SREG_DATA, uint32(value))
		a.long(unix.NFTA_DYNSET_TIMEOUT, uint64(timeout.Milliseconds()))
	})
}

// DeleteFromMap removes a key from a dynamic map. The kernel requires the register of a value, and ignores it.
func DeleteFromMap(set string, key, value Register) Expression {
	return dynamic(set, 2, key, func(a *attributes) { a.number(unix.NFTA_DYNSET_SREG_DATA, uint32(value)) }) // NFT_DYNSET_OP_DELETE
}

func dynamic(set string, operation uint32, key Register, more func(*attributes)) Expression {
	return expression("dynset", func(a *attributes) {
		a.text(unix.NFTA_DYNSET_SET_NAME, set)
		a.number(unix.NFTA_DYNSET_OP, operation)
		a.number(unix.NFTA_DYNSET_SREG_KEY, uint32(key))
		more(a)
	})
}

// RandomFrom sets a register to a random number of low to low+limit-1.
func RandomFrom(low, limit uint32, to Register) Expression {
	return expression("numgen", func(a *attributes) {
		a.number(unix.NFTA_NG_DREG, uint32(to))
		a.number(unix.NFTA_NG_MODULUS, limit)
		a.number(unix.NFTA_NG_OFFSET, low)
		a.number(unix.NFTA_NG_TYPE, unix.NFT_NG_RANDOM)
	})
}

// Destination translates the connection's destination. With port 0 the port is unchanged.
func Destination(family Family, address, port Register) Expression {
	return expression("nat", func(a *attributes) {
		a.number(unix.NFTA_NAT_TYPE, unix.NFT_NAT_DNAT)
		a.number(unix.NFTA_NAT_FAMILY, uint32(family))
		a.number(unix.NFTA_NAT_REG_ADDR_MIN, uint32(address))
		if port != 0 {
			a.number(unix.NFTA_NAT_REG_PROTO_MIN, uint32(port))
		}
	})
}

// Masquerade sets the connection's source to this machine's address, with a random port.
func Masquerade() Expression {
	return expression("masq", func(a *attributes) {
		a.number(unix.NFTA_MASQ_FLAGS, unix.NF_NAT_RANGE_PROTO_RANDOM_FULLY)
	})
}

// Reject drops the packet and sends the ICMP error "port unreachable".
func Reject(family Family) Expression {
	code := byte(3) // ICMP: port unreachable
	if family == IPv6 {
		code = 4
	}
	return expression("reject", func(a *attributes) {
		a.number(unix.NFTA_REJECT_TYPE, unix.NFT_REJECT_ICMP_UNREACH)
		a.bytes(unix.NFTA_REJECT_ICMP_CODE, []byte{code})
	})
}

// Fib reads the result of a routing table lookup of the packet's addresses.
func Fib(flags, result uint32, to Register) Expression {
	return expression("fib", func(a *attributes) {
		a.number(unix.NFTA_FIB_DREG, uint32(to))
		a.number(unix.NFTA_FIB_RESULT, result)
		a.number(unix.NFTA_FIB_FLAGS, flags)
	})
}

// Conntrack reads a property of the connection, such as unix.NFT_CT_STATE.
func Conntrack(key uint32, to Register) Expression {
	return expression("ct", func(a *attributes) {
		a.number(unix.NFTA_CT_DREG, uint32(to))
		a.number(unix.NFTA_CT_KEY, key)
	})
}

// Native returns a number in this machine's byte order, which the kernel uses for marks and states.
func Native(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }
