package dns

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	wire "github.com/miekg/dns"
)

// foundService is a service of the zone that a question is about.
type foundService struct {
	namespace, name string
	addresses       []netip.Addr
	traits
}

func (v view) service(namespace, name string) (foundService, bool) {
	s, ok := v.services.Get(namespace, name)
	if !ok {
		return foundService{}, false
	}
	return foundService{namespace, name, s.addresses, s.traits.Value()}, true
}

// service answers what stands before "svc": a namespace, a service in it, a host of the service, or a port of it.
func (q question) service(labels []string) found {
	n := len(labels)
	switch n {
	case 0:
		return found{exists: true}
	case 1:
		return found{exists: q.namespace(labels[0])}
	}
	s, ok := q.view.service(labels[n-1], labels[n-2])
	switch {
	case !ok:
		return found{}
	case s.external != "" && n == 2:
		alias := record{owner: q.name, kind: wire.TypeCNAME, target: s.external}
		return found{exists: true, records: append(q.into, alias), alias: s.external}
	case s.external != "":
		return found{}
	case n == 2:
		return q.wholeService(s)
	case n == 3 && !strings.HasPrefix(labels[0], "_"):
		return q.host(s, labels[0])
	case n == 3:
		return q.ports(s, "", labels[0])
	case n == 4 && strings.HasPrefix(labels[0], "_"):
		return q.ports(s, labels[0], labels[1])
	}
	return found{}
}

// wholeService answers the name of a service. A headless service without ready endpoints does not exist in the zone.
func (q question) wholeService(s foundService) found {
	if q.kind == wire.TypeSRV {
		return q.ports(s, "", "")
	}
	if !s.headless {
		return found{exists: true, records: q.addresses(s.addresses)}
	}
	var all []netip.Addr
	for t := range q.targets(s) {
		all = append(all, t.address)
	}
	return found{exists: len(all) > 0, records: q.addresses(distinct(all))}
}

// host answers the host name of one endpoint, or of several with the same one.
func (q question) host(s foundService, host string) found {
	var all []netip.Addr
	for t := range q.targets(s) {
		if t.host == host {
			all = append(all, t.address)
		}
	}
	return found{exists: len(all) > 0, records: q.addresses(distinct(all))}
}

// targets ranges over the ready endpoints of a service and their ports.
func (q question) targets(s foundService) func(yield func(target, portList) bool) {
	return func(yield func(target, portList) bool) {
		for slice := range q.endpointsBy(endpointsByService, s.namespace+"/"+s.name) {
			for _, t := range slice.targets {
				if !yield(t, slice.ports.Value()) {
					return
				}
			}
		}
	}
}

// ports answers _name._protocol; an empty name or protocol means all. Only SRV records exist there.
func (q question) ports(s foundService, name, protocol string) found {
	wanted := func(p port) bool {
		return (name == "" || p.name != "" && "_"+p.name == name) && (protocol == "" || "_"+p.protocol == protocol)
	}
	r := srv{
		question: q, found: found{records: q.into}, service: s.name + "." + s.namespace + ".svc." + q.domain,
		noData: q.kind != wire.TypeSRV && q.kind != wire.TypeANY || name == "" && protocol != "",
	}
	if s.headless {
		for t, ports := range q.targets(s) {
			for p := range ports.all {
				if wanted(p) {
					r.add(t.host+"."+r.service, p, t.address)
				}
			}
		}
	} else {
		for p := range s.ports.all {
			if wanted(p) {
				r.add(r.service, p, s.addresses...)
			}
		}
		r.exists = r.exists || protocol == ""
	}
	return r.found
}

// srvWeight is the weight of all SRV records; their priority is 0.
const srvWeight = 100

// srv collects SRV records, and the addresses of their names.
type srv struct {
	question
	found
	service string
	noData  bool // the name exists, but the records of the requested type do not
	seen    map[string]struct{}
}

func (r *srv) add(host string, p port, addresses ...netip.Addr) {
	r.exists = true
	if r.noData {
		return
	}
	if r.isNew(host + ":" + strconv.Itoa(int(p.number))) {
		r.records = append(r.records, record{owner: r.name, kind: wire.TypeSRV, port: p.number, target: host})
	}
	for _, a := range addresses {
		if r.isNew(host + "=" + a.String()) {
			r.extra = append(r.extra, addressRecord(host, a))
		}
	}
}

// isNew reports whether a record is the first of its kind: one endpoint may be in several slices.
func (r *srv) isNew(word string) bool {
	if _, again := r.seen[word]; again {
		return false
	}
	if r.seen == nil {
		r.seen = map[string]struct{}{}
	}
	r.seen[word] = struct{}{}
	return true
}

// distinct removes repeated addresses: an endpoint may be in two slices while it is moved.
func distinct(all []netip.Addr) []netip.Addr {
	if len(all) < 2 {
		return all
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}
