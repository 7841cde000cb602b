//go:build linux

package nft

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// Expression is a part of a rule: it reads something into registers, compares, or acts. If a comparison fails, the rule ends.
type Expression func(*attributes)

// Register is one of sixteen of four bytes each. Longer values stand in several, one behind the other.
type Register uint32

// R0 is the first register; R0+1 the next.
const R0 Register = unix.NFT_REG32_00

func expression(name string, body func(*attributes)) Expression {
	return func(a *attributes) {
		a.text(unix.NFTA_EXPR_NAME, name)
		a.nest(unix.NFTA_EXPR_DATA, func() { body(a) })
	}
}

// Meta reads something about the packet, such as unix.NFT_META_L4PROTO.
func Meta(key uint32, to Register) Expression {
	return expression("meta", func(a *attributes) {
		a.number(unix.NFTA_META_DREG, uint32(to))
		a.number(unix.NFTA_META_KEY, key)
	})
}

// SetMeta writes something about the packet, such as unix.NFT_META_MARK.
func SetMeta(key uint32, from Register) Expression {
	return expression("meta", func(a *attributes) {
		a.number(unix.NFTA_META_KEY, key)
		a.number(unix.NFTA_META_SREG, uint32(from))
	})
}

// Network reads bytes of the network header, and Transport of the header behind it.
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

// Equal goes on if a register holds this value.
func Equal(in Register, value []byte) Expression { return compare(in, unix.NFT_CMP_EQ, value) }

// Unequal goes on if it does not.
func Unequal(in Register, value []byte) Expression { return compare(in, unix.NFT_CMP_NEQ, value) }

func compare(in Register, operator uint32, value []byte) Expression {
	return expression("cmp", func(a *attributes) {
		a.number(unix.NFTA_CMP_SREG, uint32(in))
		a.number(unix.NFTA_CMP_OP, operator)
		a.value(unix.NFTA_CMP_DATA, string(value))
	})
}

// Masked keeps the bits of mask, and then turns those of flip.
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

// The verdicts.
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

// Drop throws the packet away.
func Drop() Expression { return verdict(drop, "") }

// Return goes back to the chain that called.
func Return() Expression { return verdict(leave, "") }

// Jump goes through another chain and comes back.
func Jump(chain string) Expression { return verdict(jump, chain) }

// Goto goes through another chain and does not come back.
func Goto(chain string) Expression { return verdict(gotoChain, chain) }

// In goes on if a set has the key.
func In(set string, key Register) Expression { return lookup(set, key, nil, false) }

// NotIn goes on if it does not.
func NotIn(set string, key Register) Expression { return lookup(set, key, nil, true) }

// Find reads the value of a key in a map; the rule ends if there is none.
func Find(set string, key, to Register) Expression {
	return lookup(set, key, func(a *attributes) { a.number(unix.NFTA_LOOKUP_DREG, uint32(to)) }, false)
}

// Follow goes to the chain that a map has for the key.
func Follow(set string, key Register) Expression {
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

// Remember adds a key with its value to a dynamic map; it is gone after the time-out.
func Remember(set string, key, value Register, timeout time.Duration) Expression {
	return dynamic(set, unix.NFT_DYNSET_OP_ADD, key, func(a *attributes) {
		a.number(unix.NFTA_DYNSET_SREG_DATA, uint32(value))
		a.long(unix.NFTA_DYNSET_TIMEOUT, uint64(timeout.Milliseconds()))
	})
}

// Refresh lets an element of a dynamic map that is there live for its time-out from now on, and adds it if it is not there.
func Refresh(set string, key, value Register, timeout time.Duration) Expression {
	return dynamic(set, unix.NFT_DYNSET_OP_UPDATE, key, func(a *attributes) {
		a.number(unix.NFTA_DYNSET_SREG_DATA, uint32(value))
		a.long(unix.NFTA_DYNSET_TIMEOUT, uint64(timeout.Milliseconds()))
	})
}

// Forget removes a key from a dynamic map. The kernel asks for the register of a value, and does not look at it.
func Forget(set string, key, value Register) Expression {
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

// RandomFrom puts one of the next limit numbers from low on into a register.
func RandomFrom(low, limit uint32, to Register) Expression {
	return expression("numgen", func(a *attributes) {
		a.number(unix.NFTA_NG_DREG, uint32(to))
		a.number(unix.NFTA_NG_MODULUS, limit)
		a.number(unix.NFTA_NG_OFFSET, low)
		a.number(unix.NFTA_NG_TYPE, unix.NFT_NG_RANDOM)
	})
}

// Destination translates the connection's destination. port 0 leaves its port.
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

// Masquerade gives the connection this machine's address as its source, with a port at random.
func Masquerade() Expression {
	return expression("masq", func(a *attributes) {
		a.number(unix.NFTA_MASQ_FLAGS, unix.NF_NAT_RANGE_PROTO_RANDOM_FULLY)
	})
}

// Reject drops the packet and tells the sender that the port is not reachable.
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

// Fib reads what the routing table says of the packet's addresses.
func Fib(flags, result uint32, to Register) Expression {
	return expression("fib", func(a *attributes) {
		a.number(unix.NFTA_FIB_DREG, uint32(to))
		a.number(unix.NFTA_FIB_RESULT, result)
		a.number(unix.NFTA_FIB_FLAGS, flags)
	})
}

// Conntrack reads something about the connection, such as unix.NFT_CT_STATE.
func Conntrack(key uint32, to Register) Expression {
	return expression("ct", func(a *attributes) {
		a.number(unix.NFTA_CT_DREG, uint32(to))
		a.number(unix.NFTA_CT_KEY, key)
	})
}

// Native is a number in this machine's byte order, as the kernel keeps marks and states.
func Native(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }
