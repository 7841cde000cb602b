package hollow

import "testing"

func TestEveryNodeHasARangeOfItsOwn(t *testing.T) {
	o := Options{Nodes: 300}
	o.setDefaults()
	n := &Nodes{options: o, first: 10<<24 | 64<<16}
	seen := map[string]bool{}
	for i := range 300 {
		r := n.podRange(n.facts(i).Name)
		if r == "" || seen[r] {
			t.Fatalf("node %d has range %q, which is empty or taken", i, r)
		}
		seen[r] = true
	}
	for _, foreign := range []string{"hollow-300", "hollow-01", "hollow-", "other-1", "hollow--1"} {
		if n.has(foreign) {
			t.Errorf("%s is taken for one of these nodes", foreign)
		}
	}
}

func TestAddressesAreNotGivenOutTwice(t *testing.T) {
	a := newAddresses(func(string) string { return "10.64.7.0/24" })
	seen := map[string]bool{}
	for range perNode {
		ip, err := a.take("n")
		if err != nil || seen[ip] {
			t.Fatalf("took %q twice, or failed: %v", ip, err)
		}
		seen[ip] = true
	}
	if ip, err := a.take("n"); err == nil {
		t.Fatalf("took %s where none was left", ip)
	}
	a.free("n", "10.64.7.9")
	if ip, err := a.take("n"); err != nil || ip != "10.64.7.9" {
		t.Fatalf("took %q, %v instead of the one that was freed", ip, err)
	}
}
