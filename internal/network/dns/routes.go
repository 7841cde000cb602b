package dns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	wire "github.com/miekg/dns"
)

// resolvConf names the machine's DNS servers.
const resolvConf = "/etc/resolv.conf"

// routesInterval is how often the machine's servers are read again, and all servers are probed.
const routesInterval = 30 * time.Second

// updateRoutes updates the routes until the context ends.
func (s *Server) updateRoutes(ctx context.Context) {
	for {
		s.setRoutes()
		s.probeAll(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(routesInterval):
		}
	}
}

// setRoutes sets the routes from the options, and from the machine's configuration if the options name no servers.
// Servers that stay keep their state.
func (s *Server) setRoutes() {
	known := map[string]*upstream{}
	if old := s.forward.routes.Load(); old != nil {
		for _, r := range *old {
			for _, u := range r.upstreams {
				known[u.address] = u
			}
		}
	}
	var all []route
	add := func(domain string, addresses []string) {
		r := route{domain: domain}
		for _, a := range addresses {
			if known[a] == nil {
				known[a] = &upstream{address: a}
			}
			r.upstreams = append(r.upstreams, known[a])
		}
		all = append(all, r)
	}
	for domain, addresses := range s.options.Stubs {
		add(domain, addresses)
	}
	slices.SortFunc(all, func(a, b route) int { return len(b.domain) - len(a.domain) })
	if s.options.Upstreams != nil {
		add(".", s.options.Upstreams)
	} else {
		add(".", s.machineServers())
	}
	s.forward.routes.Store(&all)
}

// machineServers returns the servers in resolv.conf, or none while it cannot be read.
func (s *Server) machineServers() []string {
	config, err := wire.ClientConfigFromFile(s.options.ResolvConf)
	if err != nil {
		s.log.Warn("the machine's DNS servers are not known", "err", err)
		return nil
	}
	var all []string
	for _, host := range config.Servers {
		all = append(all, net.JoinHostPort(host, config.Port))
	}
	return all
}

func (s *Server) probeAll(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	seen := map[*upstream]bool{}
	for _, r := range *s.forward.routes.Load() {
		for _, u := range r.upstreams {
			if seen[u] {
				continue
			}
			seen[u] = true
			all.Go(func() {
				loops := s.probes.probe(ctx, u)
				if u.loops.Swap(loops) != loops && loops {
					s.log.Error("a DNS server leads back to this one and is not asked: name another with --forward", "server", u.address)
				}
			})
		}
	}
}

// ParseServer parses the address of a server: an IP address, with or without a port.
func ParseServer(text string) (string, error) {
	server, err := netip.ParseAddrPort(text)
	if a, noPort := netip.ParseAddr(text); noPort == nil {
		server, err = netip.AddrPortFrom(a, 53), nil
	}
	if err != nil || strings.ContainsAny(server.Addr().Zone(), "[]") {
		return "", fmt.Errorf("%q is not the address of a DNS server, such as 10.0.0.1 or 10.0.0.1:5353", text)
	}
	return server.String(), nil
}

// ParseStub parses DOMAIN=SERVER,SERVER. A domain in another script must be in its ASCII form, as it is in questions.
func ParseStub(text string) (domain string, servers []string, err error) {
	given, list, ok := strings.Cut(text, "=")
	domain = strings.ToLower(wire.Fqdn(given))
	foreign := strings.ContainsFunc(given, func(r rune) bool { return r > unicode.MaxASCII })
	if _, valid := wire.IsDomainName(domain); !ok || !valid || !wire.IsFqdn(domain) || foreign || given == "" || list == "" {
		return "", nil, fmt.Errorf("%q is not DOMAIN=SERVER", text)
	}
	for word := range strings.SplitSeq(list, ",") {
		server, err := ParseServer(word)
		if err != nil {
			return "", nil, err
		}
		servers = append(servers, server)
	}
	return domain, servers, nil
}
