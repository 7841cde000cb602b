package dns

import (
	"net/netip"
	"strconv"
	"strings"

	wire "github.com/miekg/dns"
)

// reverse looks up a name below in-addr.arpa or ip6.arpa. It finds nothing if the address does not belong to the
// cluster.
func (z *zone) reverse(name string, kind uint16, into []record) found {
	address, ok := addressOf(name)
	if !ok {
		return found{}
	}
	q := question{zone: z, name: name, kind: kind, into: into}
	for key := range z.services.Keys(serviceByAddress, address.String()) {
		return q.pointer([]string{key.Name + "." + key.Namespace + ".svc." + z.domain})
	}
	var names []string
	for slice := range z.endpointsBy(endpointsByAddress, address.String()) {
		namespace, name, _ := strings.Cut(slice.service, "/")
		if s, ok := z.view.service(namespace, name); !ok || !s.headless {
			continue
		}
		for _, t := range slice.targets {
			if t.address == address {
				names = append(names, t.host+"."+name+"."+namespace+".svc."+z.domain)
			}
		}
	}
	if names == nil {
		return found{}
	}
	return q.pointer(names)
}

func (q question) pointer(names []string) found {
	f := found{exists: true, records: q.into}
	if q.kind != wire.TypePTR && q.kind != wire.TypeANY {
		return f
	}
	for _, name := range names {
		f.records = append(f.records, record{owner: q.name, kind: wire.TypePTR, target: name})
	}
	return f
}

// addressOf returns the address of a reverse name.
func addressOf(name string) (netip.Addr, bool) {
	if digits, ok := strings.CutSuffix(name, ".in-addr.arpa."); ok {
		return address4(strings.Split(digits, "."))
	}
	if digits, ok := strings.CutSuffix(name, ".ip6.arpa."); ok {
		return address6(strings.Split(digits, "."))
	}
	return netip.Addr{}, false
}

func address4(labels []string) (netip.Addr, bool) {
	var out [4]byte
	if len(labels) != len(out) {
		return netip.Addr{}, false
	}
	for i, label := range labels {
		n, err := strconv.ParseUint(label, 10, 8)
		if err != nil {
			return netip.Addr{}, false
		}
		out[len(out)-1-i] = byte(n)
	}
	return netip.AddrFrom4(out), true
}

func address6(labels []string) (netip.Addr, bool) {
	var out [16]byte
	if len(labels) != 2*len(out) {
		return netip.Addr{}, false
	}
	for i, label := range labels {
		n, err := strconv.ParseUint(label, 16, 4)
		if err != nil || len(label) != 1 {
			return netip.Addr{}, false
		}
		at := len(labels) - 1 - i
		out[at/2] |= byte(n) << (4 * (1 - at%2))
	}
	return netip.AddrFrom16(out), true
}
