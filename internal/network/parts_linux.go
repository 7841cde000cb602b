package network

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"time"

	"github.com/millrace/millrace/internal/network/dns"
	"github.com/millrace/millrace/internal/network/pods"
	"github.com/millrace/millrace/internal/network/policies"
	"github.com/millrace/millrace/internal/network/services"
	"github.com/millrace/millrace/loop"
)

// dnsPort is the DNS server's port on the node's address. Pods do not use it: they use port 53 of the service. Port 53
// of the node is often in use.
const dnsPort = 10053

// errRoot is the error of parts that need root.
var errRoot = errors.New("it changes links, routes and nf_tables, and that needs root")

func parts(o Options) []part {
	return []part{o.pods(), o.services(), o.policies(), o.dns()}
}

func (o Options) pods() part {
	p := part{name: "pods"}
	if os.Getuid() != 0 {
		p.err = errRoot
		return p
	}
	p.runner, p.err = asRunner(pods.New(pods.Options{
		Clients: o.Clients, Node: o.Node, ConfigurationDirectory: o.ConfigurationDirectory, PluginDirectory: o.PluginDirectory, Directory: o.Directory, Hold: true, Logger: o.Logger,
	}))
	return p
}

func (o Options) services() part {
	p := part{name: "services"}
	if os.Getuid() != 0 {
		p.err = errRoot
		return p
	}
	if p.err = services.Check(); p.err != nil {
		return p
	}
	options := services.Options{Clients: o.Clients.As("kube-proxy"), Node: o.Node, ClusterCIDRs: o.ClusterCIDRs, Logger: o.Logger}
	if o.Metrics != nil {
		if options.Metrics, p.err = services.NewMetrics(o.Metrics); p.err != nil {
			return p
		}
	}
	proxy, err := asRunner(services.New(options))
	if p.err = err; err != nil {
		return p
	}
	p.runner = loop.Func(func(ctx context.Context) error {
		if err := tracked.Apply(); err != nil {
			o.Logger.WarnContext(ctx, "connection tracking could not be set", "err", err)
		}
		return proxy.Run(ctx)
	})
	return p
}

// tracked is how the kernel tracks connections to services, as kube-proxy sets it by default: else it forgets those
// that one side has closed after a minute.
var tracked = services.Conntrack{MaxPerCore: 32 << 10, Min: 128 << 10, Established: 24 * time.Hour, CloseWait: time.Hour}

func (o Options) policies() part {
	p := part{name: "policies"}
	if os.Getuid() != 0 {
		p.err = errRoot
		return p
	}
	p.runner, p.err = asRunner(policies.New(policies.Options{Clients: o.Clients.As("network-policies"), Node: o.Node, Given: pods.Given{Directory: o.Directory}, Logger: o.Logger}))
	return p
}

// dns returns the DNS server and the publisher of its service.
func (o Options) dns() part {
	p := part{name: "dns"}
	at := netip.AddrPortFrom(o.Address, dnsPort)
	public, err := dns.Publish(dns.Publication{Clients: o.Clients.As("dns"), Service: o.DNS, Node: o.Node, Server: at})
	if err != nil {
		p.err = err
		return p
	}
	server, err := dns.New(dns.Options{Clients: o.Clients, Listen: []string{at.String()}, Domain: o.Domain, Logger: o.Logger})
	p.runner, p.err = loop.Join(server, public), err
	return p
}

// asRunner returns a runner, or nil with the error.
func asRunner[T loop.Runner](r T, err error) (loop.Runner, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}
