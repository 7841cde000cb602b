// Package network puts a node's part of the cluster's network together: the pods' links and routes (pods), the addresses of
// services (services) and their names (dns).
//
// What is guaranteed: a part that cannot work on this machine says so in the log, by name and with the reason, and the other parts go
// on. When Run has returned, nothing of any part is running; tables, routes and links stay, so that a restart cuts nothing.
package network

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"

	"github.com/millrace/millrace/loop"
)

// Options say which node's network this is. Clients, Node and Address must be set.
type Options struct {
	Clients *loop.Clients
	// Node is the name of the node, and Address its address.
	Node    string
	Address netip.Addr
	// ClusterCIDRs are where the cluster's pods are.
	ClusterCIDRs []netip.Prefix
	// DNS is the cluster address of the DNS service, and Domain the cluster's domain.
	DNS    netip.Addr
	Domain string
	// ConfigurationFolder and PluginFolder are where the container runtime looks for CNI configurations and plugins, and Folder keeps
	// which addresses are given out. Empty ones are the defaults of package pods.
	ConfigurationFolder, PluginFolder, Folder string
	Logger                                    *slog.Logger // nil: discard
}

// part is a part of the network that can fail alone.
type part struct {
	name   string
	runner loop.Runner
	err    error // it could not be made
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
		all = append(all, p.lasting(o.Logger))
	}
	return loop.Join(all...), nil
}

// lasting runs a part, and reports its failure instead of handing it on.
func (p part) lasting(log *slog.Logger) loop.Runner {
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
