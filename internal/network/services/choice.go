//go:build linux

package services

import (
	"net/netip"
	"slices"
)

// choice is the endpoints to which packets may be sent, as addresses with ports.
type choice struct {
	all   []netip.AddrPort // for the traffic policy Cluster
	local []netip.AddrPort // for the traffic policy Local
}

// choose returns the endpoints of one port of a service in one family: the ready ones, or if there are none the
// terminating ones that still serve. Of the ready ones, only those with a matching hint are used.
func choose(p servicePort, all []*slice, n *node, four bool) choice {
	var ready, ending, readyHere, endingHere []candidate
	for _, s := range all {
		port, ok := s.port(p)
		if !ok {
			continue
		}
		for i := range s.endpoints {
			e := &s.endpoints[i]
			if e.address.Is4() != four {
				continue
			}
			c := candidate{e, netip.AddrPortFrom(e.address, port)}
			here := n.name != "" && e.node == n.name
			switch {
			case e.ready:
				ready = append(ready, c)
				if here {
					readyHere = append(readyHere, c)
				}
			case e.serving && e.terminating:
				ending = append(ending, c)
				if here {
					endingHere = append(endingHere, c)
				}
			}
		}
	}
	return choice{all: sortedEndpoints(either(withHints(ready, n), ending)), local: sortedEndpoints(either(readyHere, endingHere))}
}

// candidate is an endpoint and its address with the requested port.
type candidate struct {
	*endpoint
	at netip.AddrPort
}

func (s *slice) port(p servicePort) (uint16, bool) {
	for _, q := range s.ports {
		if q.name == p.name && q.protocol == p.protocol {
			return q.number, true
		}
	}
	return 0, false
}

func either(a, b []candidate) []candidate {
	if len(a) > 0 {
		return a
	}
	return b
}

// withHints returns the endpoints whose hints name this node, or its zone. If an endpoint has no hint, or none has a
// hint for us, all are returned.
func withHints(all []candidate, n *node) []candidate {
	for _, chosen := range []struct {
		hints func(candidate) []string
		mine  string
	}{
		{func(c candidate) []string { return c.nodes }, n.name},
		{func(c candidate) []string { return c.zones }, n.zone},
	} {
		if chosen.mine == "" || slices.ContainsFunc(all, func(c candidate) bool { return len(chosen.hints(c)) == 0 }) {
			continue
		}
		var ours []candidate
		for _, c := range all {
			if slices.Contains(chosen.hints(c), chosen.mine) {
				ours = append(ours, c)
			}
		}
		if len(ours) > 0 {
			return ours
		}
	}
	return all
}

// sortedEndpoints returns the addresses of candidates, without repetitions.
func sortedEndpoints(all []candidate) []netip.AddrPort {
	out := make([]netip.AddrPort, len(all))
	for i, c := range all {
		out[i] = c.at
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}

// numberEndpoints numbers endpoints so that as few numbers as possible change: endpoints that stay keep their number,
// new ones fill the gaps, and the last ones move into the gaps that are left.
func numberEndpoints(before, want []netip.AddrPort) []netip.AddrPort {
	missing := make(map[netip.AddrPort]bool, len(want))
	for _, a := range want {
		missing[a] = true
	}
	out := make([]netip.AddrPort, len(want))
	var beyond []netip.AddrPort // endpoints that stay, with numbers that are too high now
	for i, a := range before {
		if !missing[a] {
			continue
		}
		delete(missing, a)
		if i < len(out) {
			out[i] = a
		} else {
			beyond = append(beyond, a)
		}
	}
	for _, a := range want {
		if missing[a] {
			beyond = append(beyond, a)
		}
	}
	for i := range out {
		if !out[i].IsValid() {
			out[i], beyond = beyond[0], beyond[1:]
		}
	}
	return out
}
