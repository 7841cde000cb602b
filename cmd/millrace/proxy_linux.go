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
		Short: "Make the addresses of services work on this machine",
		Long: "Make the addresses of services work on this machine by the kernel's nf_tables, with the flags of kube-proxy, against any\n" +
			"Kubernetes API server. Needs root. The tables stay when it ends, so that nothing is cut by a restart; --cleanup removes them.",
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
	fl.StringVar(&f.mode, "proxy-mode", "nftables", "nftables is the only one")
	fl.StringVar(&f.clusterCIDR, "cluster-cidr", "", "where the cluster's pods are, one range for each family with a comma between; what comes to services from elsewhere gets this node's address as its source")
	fl.BoolVar(&f.masqueradeAll, "masquerade-all", false, "hide the source of everything that is sent to cluster addresses")
	fl.StringSliceVar(&f.nodePorts, "nodeport-addresses", []string{"primary"}, `ranges of the node's addresses on which node ports are open; "primary" is its first of each family`)
	fl.BoolVar(&f.cleanup, "cleanup", false, "remove all tables and end")
	return c
}

func (f *proxyFlags) options() (services.Options, error) {
	o := services.Options{Node: strings.ToLower(f.name), MasqueradeAll: f.masqueradeAll}
	if f.mode != "nftables" {
		return o, fmt.Errorf("--proxy-mode %q is not nftables, the only one that is there", f.mode)
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
