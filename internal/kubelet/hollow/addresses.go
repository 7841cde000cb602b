package hollow

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
)

// ErrNoAddress means that all addresses of a node's range are in use.
var ErrNoAddress = errors.New("no address is left in the node's range")

// perNode is the number of pod addresses of a node: a /24 without the first two and the last.
const perNode = 253

// addresses assigns pod addresses from each node's range.
type addresses struct {
	ranges func(node string) string

	mu    sync.Mutex // guards nodes
	nodes map[string]*block
}

// block is one node's range. A freed address is used again only after all others have been used.
type block struct {
	base  netip.Addr
	next  uint8
	count uint8
	taken [32]byte
}

func newAddresses(ranges func(string) string) *addresses {
	return &addresses{ranges: ranges, nodes: map[string]*block{}}
}

func (a *addresses) take(node string) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.nodes[node]
	if b == nil {
		prefix, err := netip.ParsePrefix(a.ranges(node))
		if err != nil || !prefix.Addr().Is4() || prefix.Bits() > 24 {
			return "", fmt.Errorf("node %s has no range of addresses of /24 or more: %q", node, a.ranges(node))
		}
		b = &block{base: prefix.Masked().Addr()}
		a.nodes[node] = b
	}
	if b.count == perNode {
		return "", fmt.Errorf("node %s: %w", node, ErrNoAddress)
	}
	for b.taken[b.next/8]&(1<<(b.next%8)) != 0 {
		b.advance()
	}
	b.taken[b.next/8] |= 1 << (b.next % 8)
	b.count++
	bytes := b.base.As4()
	bytes[3] = b.next + 2
	b.advance()
	return netip.AddrFrom4(bytes).String(), nil
}

func (b *block) advance() { b.next = (b.next + 1) % perNode }

func (a *addresses) free(node, ip string) {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.nodes[node]
	if b == nil {
		return
	}
	n := addr.As4()[3] - 2
	if b.taken[n/8]&(1<<(n%8)) == 0 {
		return
	}
	b.taken[n/8] &^= 1 << (n % 8)
	b.count--
}
