package allocation

import (
	"net/netip"
	"testing"
)

func TestTheSmallestAndTheWidestRangesHaveTheAddressesThatTheyHave(t *testing.T) {
	for text, want := range map[string]uint64{
		"10.0.0.0/32": 0, "10.0.0.0/31": 0, "10.0.0.0/30": 2, "10.0.0.0/24": 254, "255.255.255.255/32": 0,
		"fd00::/128": 0, "fd00::/127": 1, "fd00::/112": 65535, "fd00::/8": 1<<62 - 1, "::/0": 1<<62 - 1,
	} {
		p := netip.MustParsePrefix(text)
		if _, n := usableOf(p); n != want {
			t.Errorf("%s has %d addresses, expected %d", text, n, want)
		}
		found := uint64(0)
		for a := range candidates(p) {
			if found++; !p.Contains(a) || !usable(p, a) {
				t.Errorf("%s gives %s", text, a)
			}
			if found > 1000 {
				break
			}
		}
		if found < min(want, 1000) {
			t.Errorf("%s gives %d addresses", text, found)
		}
		if want == 0 && usable(p, p.Addr()) {
			t.Errorf("%s has no address for anybody, and %s may be used", text, p.Addr())
		}
	}
}
