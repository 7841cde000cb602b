//go:build linux

package pods

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/millrace/millrace/internal/network/nft"
)

// masqueradeTable sets the source of packets that leave the cluster to the node's address.
const masqueradeTable = "millrace-pods"

// masquerade writes the table for both families. It is small, and replaced as a whole when the nodes' ranges change.
func masquerade(self peer, peers []peer) error {
	conn, err := nft.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	var b nft.Batch
	for family := range self.ranges {
		if !self.ranges[family].IsValid() {
			continue
		}
		all := []netip.Prefix{self.ranges[family]}
		for _, p := range peers {
			if p.ranges[family].IsValid() {
				all = append(all, p.ranges[family])
			}
		}
		t := nft.Table{Family: familyOf(self.ranges[family].Addr()), Name: masqueradeTable}
		comment := rangesComment(all)
		have, exists, err := conn.Comment(t)
		if err != nil {
			return err
		}
		if exists && have == comment {
			continue
		}
		if exists {
			b.DeleteTable(t)
		}
		buildMasquerade(&b, t, comment, self.ranges[family], all)
	}
	if err := conn.Commit(&b); err != nil {
		return fmt.Errorf("hide pods behind the node's address: %w", err)
	}
	return nil
}

// rangesComment is the comment of the table: the ranges for which it was made, the node's first.
func rangesComment(all []netip.Prefix) string {
	sortRanges(all[1:])
	var words []string
	for _, r := range all {
		words = append(words, r.String())
	}
	return digest(strings.Join(words, " "))
}

func sortRanges(all []netip.Prefix) {
	slices.SortFunc(all, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
}

func buildMasquerade(b *nft.Batch, t nft.Table, comment string, own netip.Prefix, all []netip.Prefix) {
	address, from, to, size := nft.Address4, uint32(12), uint32(16), uint32(4)
	if t.Family == nft.IPv6 {
		address, from, to, size = nft.Address6, 8, 24, 16
	}
	b.AddTable(t, comment)
	b.AddSet(t, &nft.Set{Name: "pods", Key: []nft.Type{address}, Interval: true})
	b.AddElements(t, "pods", nft.Ranges(all))
	b.AddChain(t, nft.Chain{Name: "postrouting", Type: "nat", Hook: unix.NF_INET_POST_ROUTING, Priority: 100})
	mask := make([]byte, size)
	for bit := range own.Bits() {
		mask[bit/8] |= 0x80 >> (bit % 8)
	}
	b.AddRule(t, "postrouting",
		nft.Network(from, size, nft.R0), nft.Masked(nft.R0, mask, make([]byte, size)), nft.Equal(nft.R0, own.Addr().AsSlice()),
		nft.Network(to, size, nft.R0), nft.NotIn("pods", nft.R0), nft.Masquerade())
}
