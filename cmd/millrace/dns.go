package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/network/dns"
	"github.com/millrace/millrace/loop"
)

// dnsFlags are the flags of `millrace dns`.
type dnsFlags struct {
	clientFlags
	options        dns.Options
	forward, stubs []string
	plain          plainFlags
}

func dnsCommand() *cobra.Command {
	f := &dnsFlags{}
	c := &cobra.Command{
		Use:   "dns",
		Short: "Run the cluster's DNS server",
		Long: "Answer the DNS names of a cluster's services and pods, by Kubernetes' DNS specification, against any Kubernetes API server.\n" +
			"All other names are forwarded.",
		Args: cobra.NoArgs,
		RunE: untilSignal(func(ctx context.Context, c *cobra.Command) error {
			if err := f.upstreams(c.Flags().Changed("forward")); err != nil {
				return err
			}
			garbage.setGrowth(frugalGrowth)
			clients, _, err := f.clients(c.OutOrStdout())
			if err != nil {
				return err
			}
			f.options.Clients, f.options.Logger = clients.As("dns"), clients.Log
			server, err := dns.New(f.options)
			if err != nil {
				return err
			}
			tells, err := f.plain.serve(ctx, f.registry, clients)
			if err != nil {
				return err
			}
			return loop.Run(ctx, clients, server, tells, loop.Func(tidy), loop.Func(func(ctx context.Context) error {
				if server.Synced(ctx) == nil {
					giveBack(nil) // what the lists needed: from now on there is hardly any garbage
				}
				return nil
			}))
		}),
	}
	f.add(c)
	f.plain.add(c, "", "")
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
