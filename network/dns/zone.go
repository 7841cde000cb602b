package dns

import (
	"net/netip"
	"strings"

	wire "github.com/miekg/dns"
)

// specification is the version of Kubernetes' DNS specification, the answer to dns-version.
const specification = "1.1.0"

// zone answers the names of the cluster from the informers.
type zone struct {
	view
	domain string // such as "cluster.local."
	ttl    uint32 // seconds
}

// found is the result of a lookup in the zone.
type found struct {
	exists  bool      // the name exists, even if it has no records of the requested type
	records []wire.RR // the answer
	extra   []wire.RR // addresses of the names in the answer
	alias   string    // the answer is a CNAME to this name
}

// has reports whether a name is inside the zone.
func (z *zone) has(name string) bool {
	return len(name) == len(z.domain) && name == z.domain ||
		len(name) > len(z.domain) && strings.HasSuffix(name, z.domain) && name[len(name)-len(z.domain)-1] == '.'
}

// find looks up a name of the zone. name is in lower case and ends with a dot; owner is the name as the client wrote it.
func (z *zone) find(name, owner string, kind uint16) found {
	q := question{zone: z, owner: owner, kind: kind}
	labels := strings.Split(strings.TrimSuffix(strings.TrimSuffix(name, z.domain), "."), ".")
	if labels[0] == "" {
		return q.apex()
	}
	rest, class := labels[:len(labels)-1], labels[len(labels)-1]
	switch {
	case class == "svc":
		return q.service(rest)
	case class == "pod":
		return q.pod(rest)
	case class == "dns-version" && len(rest) == 0:
		return q.text(specification)
	case class == "dns" && len(rest) == 1 && rest[0] == "ns":
		return q.nameserver()
	case class == "dns" && len(rest) == 0:
		return found{exists: true}
	}
	return found{}
}

// question is one lookup in the zone.
type question struct {
	*zone
	owner string
	kind  uint16
}

func (q question) apex() found {
	f := found{exists: true}
	if q.kind == wire.TypeSOA {
		f.records = []wire.RR{q.soa()}
	}
	if q.kind == wire.TypeNS {
		f.records = []wire.RR{&wire.NS{Hdr: q.header(q.owner, wire.TypeNS), Ns: "ns.dns." + q.domain}}
	}
	return f
}

func (q question) text(text string) found {
	f := found{exists: true}
	if q.kind == wire.TypeTXT {
		f.records = []wire.RR{&wire.TXT{Hdr: q.header(q.owner, wire.TypeTXT), Txt: []string{text}}}
	}
	return f
}

// nameserver returns the name for the zone's NS record: the DNS service, if it has its usual name.
func (q question) nameserver() found {
	f := found{exists: true}
	if s, ok := q.services.Get("kube-system", "kube-dns"); ok {
		f.records = q.addresses(q.owner, s.addresses)
	}
	return f
}

// pod answers a-b-c-d.NAMESPACE.pod. The address is taken from the name. Whether there is such a pod is not checked.
func (q question) pod(labels []string) found {
	switch len(labels) {
	case 0:
		return found{exists: true}
	case 1:
		return found{exists: q.namespace(labels[0])}
	case 2:
		if address, ok := undashed(labels[0]); ok && q.namespace(labels[1]) {
			return found{exists: true, records: q.addresses(q.owner, []netip.Addr{address})}
		}
	}
	return found{}
}

func (z *zone) namespace(name string) bool {
	_, ok := z.namespaces.Get("", name)
	return ok
}

// addresses returns the records of a name for those addresses that have the requested type.
func (q question) addresses(owner string, all []netip.Addr) []wire.RR {
	out := make([]wire.RR, 0, len(all))
	for _, a := range all {
		if r := q.address(owner, a); r.Header().Rrtype == q.kind || q.kind == wire.TypeANY {
			out = append(out, r)
		}
	}
	return out
}

func (z *zone) address(owner string, a netip.Addr) wire.RR {
	if a.Is4() {
		return &wire.A{Hdr: z.header(owner, wire.TypeA), A: a.AsSlice()}
	}
	return &wire.AAAA{Hdr: z.header(owner, wire.TypeAAAA), AAAA: a.AsSlice()}
}

func (z *zone) header(owner string, kind uint16) wire.RR_Header {
	return wire.RR_Header{Name: owner, Rrtype: kind, Class: wire.ClassINET, Ttl: z.ttl}
}

// soa returns the record that is part of each negative answer. Its serial number is constant: there are no zone
// transfers.
func (z *zone) soa() wire.RR {
	return &wire.SOA{
		Hdr: z.header(z.domain, wire.TypeSOA), Ns: "ns.dns." + z.domain, Mbox: "hostmaster." + z.domain,
		Serial: 1, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: z.ttl,
	}
}
