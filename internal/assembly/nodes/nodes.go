// Package nodes is where pods run: hollow nodes, and this machine as a node with a container runtime.
package nodes

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/assembly/access"
	"github.com/millrace/millrace/internal/assembly/address"
	"github.com/millrace/millrace/internal/assembly/identity"
	"github.com/millrace/millrace/internal/assembly/loops"
	"github.com/millrace/millrace/internal/kubelet"
	"github.com/millrace/millrace/internal/kubelet/hollow"
	"github.com/millrace/millrace/internal/kubelet/pressure"
	"github.com/millrace/millrace/internal/kubelet/server"
	"github.com/millrace/millrace/internal/network"
	"github.com/millrace/millrace/loop"
)

// A lease holds for 40 s, a node is given up after 50, and a renewal that fails is repeated each second. Hollow nodes are in the server's process, so that
// few renewals fail: they need no more than two in that time, and in a cluster without a port, where none gets lost on the way, one. The renewals are
// most of what a cluster with a thousand of them does when nothing happens.
const (
	hollowLeaseEvery = 20 * time.Second
	aloneLeaseEvery  = 36 * time.Second
)

// clusterDomain is the cluster's DNS domain.
const clusterDomain = "cluster.local"

// dnsPlace is the number of the DNS service's address in the service range, as is usual.
const dnsPlace = 10

// Options say which nodes there are.
type Options struct {
	// Hollow is the number of hollow nodes.
	Hollow int
	// Runtime is the socket of a container runtime; empty leaves this machine alone.
	Runtime string
	// Data is the directory of the cluster, and Root that of this machine's kubelet; by default it is in Data.
	Data, Root string
	Eviction   pressure.Thresholds
	// PodRanges are the addresses of pods. Without any, this machine's network is not changed.
	PodRanges []netip.Prefix
	// ServiceAddress is the one of the Service "kubernetes".
	ServiceAddress netip.Addr
	// CNIConfigurations and CNIPlugins are the directories of the container runtime.
	CNIConfigurations, CNIPlugins string

	// Metrics gets the metrics of the network.
	Metrics *prometheus.Registry
	Logger  *slog.Logger
}

// Nodes is the part.
type Nodes struct {
	o       Options
	address *address.Address
	access  *access.Access
	loops   *loops.Loops
}

// New makes the part.
func New(o Options, a *address.Address, who *access.Access, l *loops.Loops) *Nodes {
	return &Nodes{o: o, address: a, access: who, loops: l}
}

// Start makes the nodes, and has them run together with the loops.
func (p *Nodes) Start(context.Context, *assembly.List) error {
	if p.o.Hollow > 0 {
		nodes, err := p.hollow()
		if err != nil {
			return err
		}
		p.loops.Add(nodes)
	}
	if p.o.Runtime == "" {
		return nil
	}
	return p.machine()
}

// server configures the servers of this cluster's nodes, which the API server may call without asking. A cluster without a port has no such servers.
func (p *Nodes) server() server.Access {
	if p.address.Alone() {
		return server.Access{}
	}
	return server.Access{Clients: p.access.Keys().Clients(), Names: []string{identity.KubeletClient}}
}

// hollow makes the hollow nodes.
func (p *Nodes) hollow() (loop.Runner, error) {
	clients, err := p.loops.Clients()
	if err != nil {
		return nil, err
	}
	o := hollow.Options{
		Clients: clients, Nodes: p.o.Hollow, Pods: loop.Informer(clients, informer.For(clients.Kube.CoreV1().Pods(""))),
		Server: p.server(), As: identity.AsNode, LeaseEvery: hollowLeaseEvery, Logger: p.o.Logger,
	}
	if clients.Alone() {
		o.LeaseEvery = aloneLeaseEvery
	}
	return hollow.New(o)
}

// machine makes this machine's node, and its part of the cluster's network.
func (p *Nodes) machine() error {
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find the node's name: %w", err)
	}
	name = strings.ToLower(name)
	clients, err := p.loops.Clients()
	if err != nil {
		return err
	}
	o := kubelet.Options{
		Name: name, Clients: clients.As("kubelet"), Socket: p.o.Runtime, Root: p.o.Root, Eviction: pressure.Limits{Hard: p.o.Eviction},
		ServeDevices: true, Server: p.server(), Logger: p.o.Logger,
	}
	if o.Root == "" && p.o.Data != "" {
		o.Root = filepath.Join(p.o.Data, "kubelet")
	}
	if len(p.o.PodRanges) > 0 {
		n, err := p.network(clients, &o)
		if err != nil {
			return err
		}
		p.loops.Add(identity.As(identity.Proxy, n))
	}
	machine, err := kubelet.New(o)
	if err != nil {
		return err
	}
	p.loops.Add(loop.Func(func(ctx context.Context) error { return machine.Run(identity.AsNode(ctx, name)) }))
	return nil
}

// network returns this machine's part of the cluster's network, and completes the kubelet's options for it.
func (p *Nodes) network(clients *loop.Clients, o *kubelet.Options) (loop.Runner, error) {
	dns := p.o.ServiceAddress
	for range dnsPlace - 1 {
		dns = dns.Next()
	}
	own, err := netip.ParseAddr(kubelet.OwnAddress())
	if err != nil {
		return nil, err
	}
	o.Addresses, o.ClusterDNS, o.ClusterDomain = []string{own.String()}, []string{dns.String()}, clusterDomain
	n := network.Options{
		Clients: clients, Node: o.Name, Address: own, ClusterCIDRs: p.o.PodRanges, DNS: dns, Domain: clusterDomain,
		ConfigurationDirectory: p.o.CNIConfigurations, PluginDirectory: p.o.CNIPlugins, Logger: p.o.Logger, Metrics: p.o.Metrics,
	}
	if p.o.Data != "" {
		if n.Directory, err = filepath.Abs(filepath.Join(p.o.Data, "network")); err != nil {
			return nil, err
		}
	}
	return network.New(n)
}
