//go:build linux

package services

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/randomly"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/millrace/millrace/informer"
)

func at(text string) netip.AddrPort { return netip.MustParseAddrPort(text) }

func TestAnArrangementKeepsTheNumbersOfWhatStays(t *testing.T) {
	before := []netip.AddrPort{at("10.0.0.1:1"), at("10.0.0.2:1"), at("10.0.0.3:1"), at("10.0.0.4:1")}
	after := numberEndpoints(before, []netip.AddrPort{at("10.0.0.1:1"), at("10.0.0.3:1"), at("10.0.0.4:1")})
	if want := []netip.AddrPort{before[0], before[3], before[2]}; !slices.Equal(after, want) {
		t.Errorf("without the second: %v, want %v", after, want)
	}
	grown := numberEndpoints(after, append(slices.Clone(after), at("10.0.0.9:1")))
	if want := append(slices.Clone(after), at("10.0.0.9:1")); !slices.Equal(grown, want) {
		t.Errorf("with one more: %v, want %v", grown, want)
	}
}

func TestArrangementsHoldExactlyWhatIsWanted(t *testing.T) {
	seed := randomly.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	var arranged []netip.AddrPort
	for range 2000 {
		var want []netip.AddrPort
		for i := range 12 {
			if random.IntN(2) == 0 {
				want = append(want, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 80))
			}
		}
		before := arranged
		arranged = numberEndpoints(before, want)
		got := slices.Clone(arranged)
		slices.SortFunc(got, netip.AddrPort.Compare)
		if !slices.Equal(got, want) {
			t.Fatalf("of %v and %v came %v", before, want, arranged)
		}
		for i, a := range arranged {
			if j := slices.Index(before, a); j >= 0 && j < len(want) && i != j {
				t.Fatalf("%v moved from %d to %d: %v, then %v", a, j, i, before, arranged)
			}
		}
	}
}

// endpointIn returns an endpoint in a state.
func endpointIn(address, node string, ready, serving, terminating bool) endpoint {
	return endpoint{address: netip.MustParseAddr(address), node: node, ready: ready, serving: serving, terminating: terminating}
}

func TestWhichEndpointsAreChosen(t *testing.T) {
	p := servicePort{name: "p", protocol: 6, number: 80}
	n := &node{name: "here", zone: "a"}
	in := func(all ...endpoint) []*slice {
		return []*slice{{endpoints: all, ports: []slicePort{{"p", 6, 8080}, {"q", 6, 9090}}}}
	}
	hint := func(e endpoint, zones, nodes []string) endpoint { e.zones, e.nodes = zones, nodes; return e }
	ready1, ready2 := endpointIn("10.1.0.1", "here", true, true, false), endpointIn("10.1.0.2", "there", true, true, false)
	for name, c := range map[string]struct {
		slices     []*slice
		all, local []netip.AddrPort
	}{
		"all that are ready":           {in(ready1, ready2), []netip.AddrPort{at("10.1.0.1:8080"), at("10.1.0.2:8080")}, []netip.AddrPort{at("10.1.0.1:8080")}},
		"none that is not":             {in(ready1, endpointIn("10.1.0.3", "here", false, false, false)), []netip.AddrPort{at("10.1.0.1:8080")}, []netip.AddrPort{at("10.1.0.1:8080")}},
		"ending ones if none is ready": {in(endpointIn("10.1.0.3", "here", false, true, true)), []netip.AddrPort{at("10.1.0.3:8080")}, []netip.AddrPort{at("10.1.0.3:8080")}},
		"ending ones here if none is":  {in(ready2, endpointIn("10.1.0.3", "here", false, true, true)), []netip.AddrPort{at("10.1.0.2:8080")}, []netip.AddrPort{at("10.1.0.3:8080")}},
		"those of the zone":            {in(hint(ready1, []string{"a"}, nil), hint(ready2, []string{"b"}, nil)), []netip.AddrPort{at("10.1.0.1:8080")}, []netip.AddrPort{at("10.1.0.1:8080")}},
		"all if one has no hint":       {in(hint(ready1, []string{"a"}, nil), ready2), []netip.AddrPort{at("10.1.0.1:8080"), at("10.1.0.2:8080")}, []netip.AddrPort{at("10.1.0.1:8080")}},
		"all if the zone has none":     {in(hint(ready2, []string{"b"}, nil)), []netip.AddrPort{at("10.1.0.2:8080")}, nil},
		"those of the node before":     {in(hint(ready1, []string{"a"}, []string{"here"}), hint(ready2, []string{"a"}, []string{"there"})), []netip.AddrPort{at("10.1.0.1:8080")}, []netip.AddrPort{at("10.1.0.1:8080")}},
		"each once":                    {append(in(ready1), in(ready1)...), []netip.AddrPort{at("10.1.0.1:8080")}, []netip.AddrPort{at("10.1.0.1:8080")}},
		"none of the other family":     {in(endpointIn("fd00::1", "here", true, true, false)), nil, nil},
	} {
		got := choose(p, c.slices, n, true)
		if !slices.Equal(got.all, c.all) || !slices.Equal(got.local, c.local) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAnAddressBelongsToOneService(t *testing.T) {
	l := newDesiredTables()
	a, b := informer.Key{Namespace: "ns", Name: "a"}, informer.Key{Namespace: "ns", Name: "b"}
	slices := []*slice{sliceOf(slc("a", corev1.ProtocolTCP, on("here", "10.1.0.1")))}
	one := func() compiled {
		return compile(serviceOf(svc("a", "10.96.0.1", nil)), slices, &node{name: "here"}, nil)
	}
	if d, _ := l.put(a, one()); len(d.added) == 0 {
		t.Fatal("the first service got nothing")
	}
	if d, _ := l.put(b, one()); len(d.added)+len(d.removed) != 0 {
		t.Errorf("the second service changed %v", d)
	}
	d, freed := l.put(a, compiled{})
	if len(d.removed) == 0 || !contains(freed, b) {
		t.Errorf("the first went, and the second was not told: %v, %v", d, freed)
	}
	if d, _ := l.put(b, one()); len(d.added) == 0 {
		t.Error("the second service did not get the address")
	}
	if d, _ := l.put(b, one()); len(d.added)+len(d.removed) != 0 {
		t.Errorf("nothing changed, and there is something to write: %v", d)
	}
}

func contains(all []informer.Key, key informer.Key) bool { return slices.Contains(all, key) }

func TestOneEndpointIsFewElements(t *testing.T) {
	var all []discoveryv1.Endpoint
	for i := range 100 {
		all = append(all, on("there", netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}).String()))
	}
	n, s := &node{name: "here"}, serviceOf(svc("a", "10.96.0.1", nil))
	l := newDesiredTables()
	key := informer.Key{Namespace: "ns", Name: "a"}
	l.put(key, compile(s, []*slice{sliceOf(slc("a", corev1.ProtocolTCP, all...))}, n, nil))
	d, _ := l.put(key, compile(s, []*slice{sliceOf(slc("a", corev1.ProtocolTCP, all[1:]...))}, n, l.endpointNumbers(key)))
	if len(d.removed) != 3 || len(d.added) != 2 {
		t.Errorf("one of 100 endpoints went: %d elements go and %d come, where 3 and 2 are needed", len(d.removed), len(d.added))
	}
}
