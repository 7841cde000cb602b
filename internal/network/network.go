// Package network runs a node's part of the cluster's network: the pods' links and routes (pods), the addresses of
// services (services), network policies (policies) and DNS (dns).
//
// Guarantees: A part that cannot work on this machine logs its name and the reason, and the other parts work. When Run
// has returned, nothing of any part is running. Tables, routes and links stay, so a restart interrupts no connection.
package network

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/loop"
)

// Options describe a node and its network. Clients, Node and Address must be set.
type Options struct {
	Clients *loop.Clients
	// Node is the name of the node, and Address its address.
	Node    string
	Address netip.Addr
	// ClusterCIDRs are the ranges of the pods' addresses.
	ClusterCIDRs []netip.Prefix
	// DNS is the cluster IP of the DNS service, and Domain the cluster's domain.
	DNS    netip.Addr
	Domain string
	// ConfigurationDirectory and PluginDirectory are the directories in which the container runtime finds CNI
	// configurations and plugins. Directory has a file for each assigned address. Empty: the defaults of package pods.
	ConfigurationDirectory, PluginDirectory, Directory string
	// Metrics registers the metrics of the services, under kube-proxy's names. Nil: there are none.
	Metrics prometheus.Registerer
	Logger  *slog.Logger // nil: discard
}

// part is a part of the network. If it fails the others continue.
type part struct {
	name   string
	runner loop.Runner
	err    error // why it could not be made
}

// New makes the network.
func New(o Options) (loop.Runner, error) {
	if o.Clients == nil || o.Node == "" || !o.Address.IsValid() {
		return nil, errors.New("the network needs clients, and the name and the address of its node")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	var all []loop.Runner
	for _, p := range parts(o) {
		all = append(all, p.logFailure(o.Logger))
	}
	return loop.Join(all...), nil
}

// logFailure returns a runner that runs a part, and logs its error instead of returning it.
func (p part) logFailure(log *slog.Logger) loop.Runner {
	return loop.Func(func(ctx context.Context) error {
		err := p.err
		if err == nil {
			err = p.runner.Run(ctx)
		}
		if err != nil && ctx.Err() == nil {
			log.ErrorContext(ctx, "a part of the network does not work on this machine", "part", p.name, "why", err)
		}
		<-ctx.Done()
		return nil
	})
}
