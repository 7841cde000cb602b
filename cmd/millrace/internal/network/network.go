// Package network has the commands for a machine's part of the cluster's network: `millrace network`, `millrace proxy`
// and `millrace dns`, and the CNI plugin that the program becomes when a container runtime calls it.
package network

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/cmd/millrace/internal/client"
	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/cmd/millrace/internal/memory"
	"github.com/millrace/millrace/cmd/millrace/internal/ports"
	"github.com/millrace/millrace/internal/kubelet"
	"github.com/millrace/millrace/internal/network"
	"github.com/millrace/millrace/loop"
)

// networkFlags are the flags of `millrace network`, under the names that kubelets and kube-proxy have for the same.
type networkFlags struct {
	client.Flags
	name, address, clusterCIDR, dns string
	options                         network.Options
	plain                           ports.Plain
}

func Command() *cobra.Command {
	f := &networkFlags{}
	c := &cobra.Command{
		Use:   "network",
		Short: "Make this machine part of a cluster's network",
		Long: "Make this machine part of a cluster's network, beside its kubelet: pods get addresses and reach those of other nodes, and services\n" +
			"and DNS names work. The pod range is read from the node's spec.podCIDRs. Needs root. A CNI configuration of another network\n" +
			"plugin is not changed. Links, routes and tables stay when the command ends, so that a restart interrupts nothing.\n" +
			"It needs a Linux kernel.",
		Args: cobra.NoArgs,
		RunE: flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
			if err := flags.RealNodes(runtime.GOOS); err != nil {
				return err
			}
			if err := f.complete(); err != nil {
				return err
			}
			clients, _, err := f.Clients(c.OutOrStdout())
			if err != nil {
				return err
			}
			tells, err := f.plain.Serve(ctx, f.Registry, clients)
			if err != nil {
				return err
			}
			f.options.Clients, f.options.Logger, f.options.Metrics = clients, clients.Log, f.Registry
			node, err := network.New(f.options)
			if err != nil {
				return err
			}
			return loop.Run(ctx, clients, node, tells, loop.Func(memory.Tidy))
		}),
	}
	f.Add(c)
	f.plain.Add(c, "", "127.0.0.1:10249")
	fl := c.Flags()
	fl.StringVar(&f.name, "hostname-override", "", "name of the node (default: this machine's)")
	fl.StringVar(&f.address, "node-ip", "", "address of the node (default: the machine's first)")
	fl.StringVar(&f.clusterCIDR, "cluster-cidr", "10.244.0.0/16", "pod ranges of the cluster: one for each IP family, separated by a comma")
	fl.StringVar(&f.dns, "cluster-dns", "10.96.0.10", "address of the DNS service, as in the kubelet's --cluster-dns")
	fl.StringVar(&f.options.Domain, "cluster-domain", "cluster.local", "DNS domain of the cluster")
	fl.StringVar(&f.options.ConfigurationDirectory, "cni-conf-dir", "/etc/cni/net.d", "where the container runtime looks for CNI configurations")
	fl.StringVar(&f.options.PluginDirectory, "cni-bin-dir", "/opt/cni/bin", "where the container runtime looks for CNI plugins")
	fl.StringVar(&f.options.Directory, "root-dir", "/var/lib/millrace/network", "directory with the assigned pod addresses")
	return c
}

// complete parses the flags.
func (f *networkFlags) complete() error {
	o := &f.options
	if o.Node = strings.ToLower(f.name); o.Node == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("find the node's name: %w", err)
		}
		o.Node = strings.ToLower(name)
	}
	var err error
	if o.Address, err = netip.ParseAddr(cmp.Or(f.address, kubelet.OwnAddress())); err != nil {
		return fmt.Errorf("--node-ip: %q is not an address", f.address)
	}
	if o.DNS, err = netip.ParseAddr(f.dns); err != nil {
		return fmt.Errorf("--cluster-dns: %q is not an address", f.dns)
	}
	o.ClusterCIDRs, err = flags.Prefixes("cluster-cidr", f.clusterCIDR)
	return err
}
