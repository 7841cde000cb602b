package dns

import (
	"net/netip"
	"strings"

	wire "github.com/miekg/dns"
)

// specification is the version of Kubernetes' DNS specification, the answer to dns-version.
const specification = "1.1.0"

// The numbers of the SOA. The serial number is constant: there are no zone transfers.
const (
	soaSerial  = 1
	soaRefresh = 7200
	soaRetry   = 1800
	soaExpire  = 86400
)

// zone answers the names of the cluster from the informers.
type zone struct {
	view
	domain     string // such as "cluster.local."
	serverName string // of its DNS server
}

func newZone(v view, domain string) *zone {
	return &zone{view: v, domain: domain, serverName: "ns.dns." + domain}
}

// found is the result of a lookup in the zone.
type found struct {
	exists  bool     // the name exists, even if it has no records of the requested type
	records []record // the answer
	extra   []record // addresses of the names in the answer
	alias   string   // the answer is a CNAME to this name
}

// has reports whether a name is inside the zone.
func (z *zone) has(name string) bool {
	return len(name) == len(z.domain) && name == z.domain ||
		len(name) > len(z.domain) && strings.HasSuffix(name, z.domain) && name[len(name)-len(z.domain)-1] == '.'
}

// maxLabels is how many labels a name has before the domain at most: those of a port of a service.
const maxLabels = 5

// find looks up a name of the zone. name is in lower case and ends with a dot. The found records are appended to into.
func (z *zone) find(name string, kind uint16, into []record) found {
	q := question{zone: z, name: name, kind: kind, into: into}
	if name == z.domain {
		return q.apex()
	}
	var labels [maxLabels]string
	n := 0
	for label := range strings.SplitSeq(name[:len(name)-len(z.domain)-1], ".") {
		if n == len(labels) {
			return found{}
		}
		labels[n] = label
		n++
	}
	rest, class := labels[:n-1], labels[n-1]
	switch {
	case class == "svc":
		return q.service(rest)
	case class == "pod":
		return q.pod(rest)
	case class == "dns-version" && len(rest) == 0:
		return q.only(record{kind: wire.TypeTXT, target: specification})
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
	name string
	kind uint16
	into []record
}

func (q question) apex() found {
	if q.kind == wire.TypeSOA {
		return q.only(q.soa())
	}
	return q.only(record{kind: wire.TypeNS, target: q.serverName})
}

// only returns the name's only record, if its type is the requested one.
func (q question) only(r record) found {
	f := found{exists: true}
	if r.kind == q.kind {
		r.owner = q.name
		f.records = append(q.into, r)
	}
	return f
}

// nameserver returns the name for the zone's NS record: the DNS service, if it has its usual name.
func (q question) nameserver() found {
	f := found{exists: true}
	if s, ok := q.services.Get(publicNamespace, publicName); ok {
		f.records = q.addresses(s.addresses)
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
			return found{exists: true, records: q.addresses([]netip.Addr{address})}
		}
	}
	return found{}
}

func (z *zone) namespace(name string) bool {
	_, ok := z.namespaces.Get("", name)
	return ok
}

// addresses returns the records of the name for those addresses that have the requested type.
func (q question) addresses(all []netip.Addr) []record {
	out := q.into
	for _, a := range all {
		if r := addressRecord(q.name, a); r.kind == q.kind || q.kind == wire.TypeANY {
			out = append(out, r)
		}
	}
	return out
}

func addressRecord(owner string, a netip.Addr) record {
	kind := wire.TypeAAAA
	if a.Is4() {
		kind = wire.TypeA
	}
	return record{owner: owner, kind: kind, address: a}
}

// soa returns the record that is part of each negative answer.
func (z *zone) soa() record {
	return record{owner: z.domain, kind: wire.TypeSOA, target: z.serverName}
}
