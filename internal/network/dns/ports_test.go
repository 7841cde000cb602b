package dns

import (
	"slices"
	"testing"
)

func TestAListOfPortsHasAllOfThem(t *testing.T) {
	for _, ports := range [][]port{
		nil,
		{{"", "tcp", 0}},
		{{"http", "tcp", 80}},
		{{"dns", "udp", 53}, {"dns-tcp", "tcp", 53}, {"", "sctp", 65535}},
	} {
		if got := slices.Collect(listPorts(ports).all); !slices.Equal(got, ports) {
			t.Errorf("%q has %v, and was made of %v", listPorts(ports), got, ports)
		}
	}
	for p := range listPorts([]port{{"a", "tcp", 1}, {"b", "tcp", 2}}).all {
		if p.name != "a" {
			t.Errorf("%v comes after the end", p)
		}
		break
	}
}
