package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/network/services"
)

// proxyFlags are the flags of `millrace proxy`, under kube-proxy's names.
type proxyFlags struct {
	clientFlags
	name, mode, clusterCIDR string
	masqueradeAll, cleanup  bool
	nodePorts               []string
	plain                   plainFlags
}

func proxyCommand() *cobra.Command {
	f := &proxyFlags{}
	c := &cobra.Command{
		Use:   "proxy",
		Short: "Run the service proxy on this machine",
		Long: "Make services reachable on this machine with the kernel's nf_tables, with the flags of kube-proxy, against any\n" +
			"Kubernetes API server. Needs root. The tables stay when the command ends, so that a restart interrupts nothing; --cleanup removes them.",
		Args: cobra.NoArgs,
		RunE: untilSignal(func(ctx context.Context, c *cobra.Command) error {
			if f.cleanup {
				return services.Remove()
			}
			o, err := f.options()
			if err != nil {
				return err
			}
			clients, _, err := f.clients(c.OutOrStdout())
			if err != nil {
				return err
			}
			o.Clients, o.Logger = clients.As("kube-proxy"), clients.Log
			proxy, err := services.New(o)
			if err != nil {
				return err
			}
			tells, err := f.plain.serve(ctx, clients)
			if err != nil {
				return err
			}
			return loop.Run(ctx, clients, proxy, tells, loop.Func(tidy))
		}),
	}
	f.add(c)
	f.plain.add(c, "0.0.0.0:10256", "127.0.0.1:10249")
	fl := c.Flags()
	fl.StringVar(&f.name, "hostname-override", "", "name of the node (default: this machine's)")
	fl.StringVar(&f.mode, "proxy-mode", "nftables", "only nftables is supported")
	fl.StringVar(&f.clusterCIDR, "cluster-cidr", "", "pod ranges of the cluster, one for each IP family, separated by a comma; traffic to services from other sources is masqueraded")
	fl.BoolVar(&f.masqueradeAll, "masquerade-all", false, "masquerade all traffic to cluster IPs")
	fl.StringSliceVar(&f.nodePorts, "nodeport-addresses", []string{"primary"}, `ranges of the node's addresses on which node ports are open; "primary" means its first address of each IP family`)
	fl.BoolVar(&f.cleanup, "cleanup", false, "remove all tables and exit")
	return c
}

func (f *proxyFlags) options() (services.Options, error) {
	o := services.Options{Node: strings.ToLower(f.name), MasqueradeAll: f.masqueradeAll}
	if f.mode != "nftables" {
		return o, fmt.Errorf("--proxy-mode %q is not supported: only nftables is", f.mode)
	}
	if os.Getuid() != 0 {
		return o, errors.New("services need the kernel's nf_tables, and that needs root")
	}
	var err error
	if o.Node == "" {
		if o.Node, err = os.Hostname(); err != nil {
			return o, err
		}
		o.Node = strings.ToLower(o.Node)
	}
	if o.ClusterCIDRs, err = prefixes("cluster-cidr", f.clusterCIDR); err != nil {
		return o, err
	}
	if len(f.nodePorts) == 1 && f.nodePorts[0] == "primary" {
		return o, nil
	}
	o.NodePortAddresses, err = prefixes("nodeport-addresses", strings.Join(f.nodePorts, ","))
	return o, err
}
