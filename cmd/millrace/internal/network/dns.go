package network

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/cmd/millrace/internal/client"
	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/cmd/millrace/internal/memory"
	"github.com/millrace/millrace/cmd/millrace/internal/ports"
	"github.com/millrace/millrace/internal/network/dns"
	"github.com/millrace/millrace/loop"
)

// dnsFlags are the flags of `millrace dns`.
type dnsFlags struct {
	client.Flags
	options        dns.Options
	forward, stubs []string
	plain          ports.Plain
}

func DNSCommand() *cobra.Command {
	f := &dnsFlags{}
	c := &cobra.Command{
		Use:   "dns",
		Short: "Run the cluster's DNS server",
		Long: "Answer the DNS names of a cluster's services and pods, by Kubernetes' DNS specification, against any Kubernetes API server.\n" +
			"All other names are forwarded.",
		Args: cobra.NoArgs,
		RunE: flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
			if err := f.upstreams(c.Flags().Changed("forward")); err != nil {
				return err
			}
			memory.Garbage.SetGrowth(memory.Frugal)
			clients, _, err := f.Clients(c.OutOrStdout())
			if err != nil {
				return err
			}
			f.options.Clients, f.options.Logger = clients.As("dns"), clients.Log
			server, err := dns.New(f.options)
			if err != nil {
				return err
			}
			tells, err := f.plain.Serve(ctx, f.Registry, clients)
			if err != nil {
				return err
			}
			return loop.Run(ctx, clients, server, tells, loop.Func(memory.Tidy), loop.Func(func(ctx context.Context) error {
				if server.Synced(ctx) == nil {
					memory.GiveBack() // what the lists needed: from now on there is hardly any garbage
				}
				return nil
			}))
		}),
	}
	f.Add(c)
	f.plain.Add(c, "", "")
	fl := c.Flags()
	fl.StringSliceVar(&f.options.Listen, "listen", []string{":53"}, "addresses to listen on, for UDP and TCP")
	fl.StringVar(&f.options.Domain, "cluster-domain", "cluster.local", "domain of the cluster")
	fl.DurationVar(&f.options.TTL, "ttl", 5*time.Second, "TTL of answers about the cluster")
	fl.StringSliceVar(&f.forward, "forward", nil, "DNS servers for other names, as ADDRESS or ADDRESS:PORT; an empty list forwards nothing (default: those of --resolv-conf)")
	fl.StringVar(&f.options.ResolvConf, "resolv-conf", "/etc/resolv.conf", "file with the machine's DNS servers")
	fl.StringArrayVar(&f.stubs, "stub-domain", nil, "DNS servers for one domain, as DOMAIN=ADDRESS,ADDRESS; may be repeated")
	fl.IntVar(&f.options.CacheEntries, "cache-entries", 10000, "how many forwarded answers are cached")
	return c
}

// upstreams parses the flags for other DNS servers.
func (f *dnsFlags) upstreams(forwardGiven bool) error {
	if forwardGiven {
		f.options.Upstreams = []string{}
	}
	for _, word := range f.forward {
		server, err := dns.ParseServer(word)
		if err != nil {
			return err
		}
		f.options.Upstreams = append(f.options.Upstreams, server)
	}
	f.options.Stubs = map[string][]string{}
	for _, word := range f.stubs {
		domain, servers, err := dns.ParseStub(word)
		if err != nil {
			return err
		}
		f.options.Stubs[domain] = servers
	}
	return nil
}
