//go:build linux

package pods

import (
	"errors"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/millrace/millrace/internal/network/nft"
)

// guardTable has what is dropped of pods' packets whatever the policies say: what a pod sends from addresses that are
// not its own, and all from and to addresses whose pod the policies do not know yet.
const guardTable = "millrace-links"

// Names of the sets.
const (
	linksSet = "links" // the node's ends of the pods' links
	ownSet   = "own"   // such an end, and an address of the pod behind it
	heldSet  = "held"  // addresses that wait for the policies
)

// guardLayout is the comment of the table. A table with another comment is replaced.
const guardLayout = "what pods may send, make 1"

// guard writes the tables of both families as the files of addresses say, and holds more addresses. Calls are
// serialised by the lock of the addresses.
func (a addresses) guard(hold []netip.Addr) error {
	wanted := map[nft.Family]map[string]map[string]bool{}
	for _, family := range []nft.Family{nft.IPv4, nft.IPv6} {
		wanted[family] = map[string]map[string]bool{linksSet: {}, ownSet: {}, heldSet: {}}
	}
	given := map[string]bool{}
	err := a.forEach(func(address netip.Addr, owner string) error {
		name := linkKey(linkOf(owner))
		for _, sets := range wanted { // also in the family in which the pod has no address
			sets[linksSet][name] = true
		}
		given[string(address.AsSlice())] = true
		wanted[familyOf(address)][ownSet][name+string(address.AsSlice())] = true
		return nil
	})
	if err != nil {
		return err
	}
	for _, address := range hold {
		wanted[familyOf(address)][heldSet][string(address.AsSlice())] = true
	}
	conn, err := nft.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	for family, sets := range wanted {
		var b nft.Batch
		has := len(sets[ownSet]) > 0
		err := writeGuard(conn, &b, nft.Table{Family: family, Name: guardTable}, sets, given)
		if err == nil && b.Len() > 0 {
			err = conn.Commit(&b)
		}
		if err != nil && (has || !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EAFNOSUPPORT)) { // a kernel without IPv6 has nothing to guard there
			return err
		}
	}
	return nil
}

// writeGuard adds what a table lacks to a batch, and removes what is too much. Addresses that are held stay held while
// they are given to a pod.
func writeGuard(conn *nft.Conn, b *nft.Batch, t nft.Table, sets map[string]map[string]bool, given map[string]bool) error {
	comment, exists, err := conn.Comment(t)
	if err != nil {
		return err
	}
	if exists && comment != guardLayout {
		b.DeleteTable(t)
		exists = false
	}
	if !exists {
		buildGuard(b, t)
	}
	for name, keys := range sets {
		if exists {
			have, err := conn.Elements(t, name)
			if err != nil {
				return err
			}
			var gone []nft.Element
			for _, e := range have {
				if !keys[e.Key] && (name != heldSet || !given[e.Key]) {
					gone = append(gone, nft.Element{Key: e.Key})
				}
				delete(keys, e.Key)
			}
			if gone != nil {
				b.DeleteElements(t, name, gone)
			}
		}
		var fresh []nft.Element
		for key := range keys {
			fresh = append(fresh, nft.Element{Key: key})
		}
		if fresh != nil {
			b.AddElements(t, name, fresh)
		}
	}
	return nil
}

// The kernel's priorities: before connections are tracked, and before policies.
const (
	priorityRaw  = -300
	priorityHeld = -10
)

func buildGuard(b *nft.Batch, t nft.Table) {
	address, from, to, size := nft.Address4, uint32(12), uint32(16), uint32(4)
	if t.Family == nft.IPv6 {
		address, from, to, size = nft.Address6, 8, 24, 16
	}
	b.AddTable(t, guardLayout)
	b.AddSet(t, &nft.Set{Name: linksSet, Key: []nft.Type{nft.Interface}})
	b.AddSet(t, &nft.Set{Name: ownSet, Key: []nft.Type{nft.Interface, address}})
	b.AddSet(t, &nft.Set{Name: heldSet, Key: []nft.Type{address}})
	b.AddChain(t, nft.Chain{Name: "sources", Type: "filter", Hook: unix.NF_INET_PRE_ROUTING, Priority: priorityRaw})
	if t.Family == nft.IPv6 {
		allowNeighbours(b, t)
	}
	const words = unix.IFNAMSIZ / 4
	b.AddRule(t, "sources", nft.Meta(unix.NFT_META_IIFNAME, nft.R0), nft.In(linksSet, nft.R0),
		nft.Network(from, size, nft.R0+words), nft.NotIn(ownSet, nft.R0), nft.Drop())
	b.AddChain(t, nft.Chain{Name: "held", Type: "filter", Hook: unix.NF_INET_FORWARD, Priority: priorityHeld})
	for _, offset := range []uint32{from, to} {
		b.AddRule(t, "held", nft.Network(offset, size, nft.R0), nft.In(heldSet, nft.R0), nft.Drop())
	}
}

// allowNeighbours lets links find their neighbours: with ICMP from addresses of the link alone, which no router
// forwards, or from none.
func allowNeighbours(b *nft.Batch, t nft.Table) {
	mask, ofLink, none := make([]byte, 16), make([]byte, 16), make([]byte, 16)
	mask[0], mask[1], ofLink[0], ofLink[1] = 0xff, 0xc0, 0xfe, 0x80
	icmp := []nft.Expression{nft.Meta(unix.NFT_META_L4PROTO, nft.R0), nft.Equal(nft.R0, []byte{unix.IPPROTO_ICMPV6}), nft.Network(8, 16, nft.R0)}
	b.AddRule(t, "sources", append(icmp[:3:3], nft.Masked(nft.R0, mask, none), nft.Equal(nft.R0, ofLink), nft.Accept())...)
	b.AddRule(t, "sources", append(icmp[:3:3], nft.Equal(nft.R0, none), nft.Accept())...)
}

// linkKey is the name of a link as the kernel compares it.
func linkKey(name string) string { return name + strings.Repeat("\x00", unix.IFNAMSIZ-len(name)) }

// forgetConnections makes the kernel forget the connections of addresses. The next pod that gets an address would take
// part in those of the last one, whatever its policies say.
func forgetConnections(all []netip.Addr) error {
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		filter := ofAddresses{}
		for _, a := range all {
			if a.Is4() == (family == unix.AF_INET) {
				filter[a] = true
			}
		}
		if len(filter) == 0 {
			continue
		}
		_, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, filter)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EINVAL) {
			return err // a kernel that has no such table tracks nothing
		}
	}
	return nil
}

// ofAddresses are the connections in which an address takes part.
type ofAddresses map[netip.Addr]bool

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (o ofAddresses) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	for _, ip := range [][]byte{flow.Forward.SrcIP, flow.Forward.DstIP, flow.Reverse.SrcIP, flow.Reverse.DstIP} {
		if a, ok := netip.AddrFromSlice(ip); ok && o[a.Unmap()] {
			return true
		}
	}
	return false
}
