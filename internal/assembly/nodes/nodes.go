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

// A lease holds for 40 s, a node is given up after 50, and a renewal that fails is repeated each second. Hollow nodes
// are in the server's process, so that few renewals fail: they need no more than two in that time, and in a cluster
// without a port, where none gets lost on the way, one. The renewals are most of what a cluster with a thousand of them
// does when nothing happens.
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
	// Served says that hollow nodes serve the API server, for logs and the like, also if that has no port of its own.
	Served bool
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
func (no *Nodes) Start(context.Context, *assembly.List) error {
	if no.o.Hollow > 0 {
		nodes, err := no.hollow()
		if err != nil {
			return err
		}
		no.loops.Add(nodes)
	}
	if no.o.Runtime == "" {
		return nil
	}
	return no.machine()
}

// server configures the servers of this cluster's nodes, which the API server may call without asking. A cluster
// without a port has no such servers, unless others reach it in another way.
func (no *Nodes) server() server.Access {
	if no.address.Alone() && !no.o.Served {
		return server.Access{}
	}
	return server.Access{Clients: no.access.Keys().Clients(), Names: []string{identity.KubeletClient}}
}

// hollow makes the hollow nodes.
func (no *Nodes) hollow() (loop.Runner, error) {
	clients, err := no.loops.Clients()
	if err != nil {
		return nil, err
	}
	o := hollow.Options{
		Clients: clients, Nodes: no.o.Hollow, Pods: loop.Informer(clients, informer.For(clients.Kube.CoreV1().Pods(""))),
		Server: no.server(), As: identity.AsNode, LeaseEvery: hollowLeaseEvery, Logger: no.o.Logger,
	}
	if clients.Alone() {
		o.LeaseEvery = aloneLeaseEvery
	}
	return hollow.New(o)
}

// machine makes this machine's node, and its part of the cluster's network.
func (no *Nodes) machine() error {
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find the node's name: %w", err)
	}
	name = strings.ToLower(name)
	clients, err := no.loops.Clients()
	if err != nil {
		return err
	}
	o := kubelet.Options{
		Name: name, Clients: clients.As("kubelet"), Socket: no.o.Runtime, Root: no.o.Root, Eviction: pressure.Limits{Hard: no.o.Eviction},
		ServeDevices: true, Server: no.server(), Logger: no.o.Logger,
	}
	if o.Root == "" && no.o.Data != "" {
		o.Root = filepath.Join(no.o.Data, "kubelet")
	}
	if len(no.o.PodRanges) > 0 {
		n, err := no.network(clients, &o)
		if err != nil {
			return err
		}
		no.loops.Add(identity.As(identity.Proxy, n))
	}
	machine, err := kubelet.New(o)
	if err != nil {
		return err
	}
	no.loops.Add(loop.Func(func(ctx context.Context) error { return machine.Run(identity.AsNode(ctx, name)) }))
	return nil
}

// network returns this machine's part of the cluster's network, and completes the kubelet's options for it.
func (no *Nodes) network(clients *loop.Clients, o *kubelet.Options) (loop.Runner, error) {
	dns := no.o.ServiceAddress
	for range dnsPlace - 1 {
		dns = dns.Next()
	}
	own, err := netip.ParseAddr(kubelet.OwnAddress())
	if err != nil {
		return nil, err
	}
	o.Addresses, o.ClusterDNS, o.ClusterDomain = []string{own.String()}, []string{dns.String()}, clusterDomain
	n := network.Options{
		Clients: clients, Node: o.Name, Address: own, ClusterCIDRs: no.o.PodRanges, DNS: dns, Domain: clusterDomain,
		ConfigurationDirectory: no.o.CNIConfigurations, PluginDirectory: no.o.CNIPlugins, Logger: no.o.Logger, Metrics: no.o.Metrics,
	}
	if no.o.Data != "" {
		if n.Directory, err = filepath.Abs(filepath.Join(no.o.Data, "network")); err != nil {
			return nil, err
		}
	}
	return network.New(n)
}
