//go:build linux

package nft

import (
	"net/netip"
	"slices"
)

// Ranges returns the elements of an interval set with one address as its key. Ranges that overlap or touch are merged,
// as the kernel requires.
func Ranges(all []netip.Prefix) []Element {
	type span struct{ first, beyond netip.Addr } // beyond is the first address after the range; invalid if there is none
	var spans []span
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b netip.Prefix) int { return a.Masked().Addr().Compare(b.Masked().Addr()) })
	for _, p := range sorted {
		s := span{p.Masked().Addr(), LastOf(p).Next()}
		if n := len(spans); n > 0 && (!spans[n-1].beyond.IsValid() || s.first.Compare(spans[n-1].beyond) <= 0) {
			if spans[n-1].beyond.IsValid() && (!s.beyond.IsValid() || s.beyond.Compare(spans[n-1].beyond) > 0) {
				spans[n-1].beyond = s.beyond
			}
			continue
		}
		spans = append(spans, s)
	}
	var out []Element
	for _, s := range spans {
		out = append(out, Element{Key: string(s.first.AsSlice())})
		if s.beyond.IsValid() {
			out = append(out, Element{Key: string(s.beyond.AsSlice()), Last: true})
		}
	}
	return out
}

// LastOf returns the last address of a range.
func LastOf(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	a, _ := netip.AddrFromSlice(bytes)
	return a
}
