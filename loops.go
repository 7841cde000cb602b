package millrace

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers"
	signing "github.com/millrace/millrace/internal/controllers/certificates"
	loopmetrics "github.com/millrace/millrace/internal/controllers/prommetrics"
	"github.com/millrace/millrace/internal/controllers/serviceaccount"
	"github.com/millrace/millrace/internal/kubelet"
	"github.com/millrace/millrace/internal/kubelet/hollow"
	"github.com/millrace/millrace/internal/kubelet/pressure"
	"github.com/millrace/millrace/internal/scheduler"
	schedulermetrics "github.com/millrace/millrace/internal/scheduler/prommetrics"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/loop"
	requestmetrics "github.com/millrace/millrace/loop/prommetrics"
	"github.com/millrace/millrace/queue/prommetrics"
)

// kubeletPort is the kubelets' port.
const kubeletPort = 10250

// A lease holds for 40 s, a node is given up after 50, and a renewal that fails is repeated each second. Hollow nodes are in the server's process, so that
// few renewals fail: they need no more than two in that time, and in a cluster without a port, where none gets lost on the way, one. The renewals are
// most of what a cluster with a thousand of them does when nothing happens.
const (
	hollowLeaseEvery = 20 * time.Second
	aloneLeaseEvery  = 36 * time.Second
)

// startLoops starts the components that use the API. They reach the server only through the API.
func (c *Cluster) startLoops(context.Context) error {
	if len(c.options.Controllers) == 0 && c.options.NoScheduler && c.options.Nodes == 0 && c.options.Runtime == "" {
		return nil
	}
	clients, err := c.loopClients()
	if err != nil {
		return err
	}
	var runners []loop.Runner
	if len(c.options.Controllers) > 0 {
		group, err := c.controllers(clients)
		if err != nil {
			return err
		}
		runners = append(runners, group)
	}
	if !c.options.NoScheduler {
		o := scheduler.For(clients)
		if o.Metrics, err = schedulermetrics.New(c.metrics.Registry); err != nil {
			return err
		}
		runners = append(runners, as(schedulerUser, scheduler.New(o)))
	}
	nodes, err := c.nodes(clients)
	if err != nil {
		return err
	}
	runners = append(runners, nodes...)
	// What the loops share reads and writes events as the controller manager.
	c.run("loops", func(ctx context.Context) error {
		return loop.Run(auth.WithUser(ctx, controllerUser), clients, runners...)
	})
	return nil
}

// loopClients returns the clients of all loops, which are measured.
func (c *Cluster) loopClients() (*loop.Clients, error) {
	config := c.InProcess()
	config.Transport = otherwise{controllerUser, config.Transport} // discovery makes contexts of its own, without a user
	requests, err := requestmetrics.NewRequests(c.metrics.Registry)
	if err != nil {
		return nil, err
	}
	requests.Measure(config)
	clients, err := loop.NewClients(config, c.options.Logger)
	if err != nil {
		return nil, err
	}
	if clients.Metrics, err = prommetrics.New(c.metrics.Registry); err != nil {
		return nil, err
	}
	if c.options.Listen == noPort {
		clients.SetAlone()
	}
	return clients, nil
}

// controllers returns the selected loops.
func (c *Cluster) controllers(clients *loop.Clients) (*loop.Group, error) {
	authority := c.certificates.keys.Keys().Authority
	o := controllers.Options{RootCA: authority.CertPEM, Signing: signing.Signing{Authority: func() (signing.Authority, error) {
		return signing.Authority{Certificate: authority.Certificate, Key: authority.Key}, nil
	}}}
	o.Making.Key = c.certificates.signing
	if err := loopmetrics.Measure(&o, c.metrics.Registry); err != nil {
		return nil, err
	}
	if c.options.Nodes > 0 || c.options.Runtime != "" {
		o.Volumes.Class = "standard"
	}
	o.Balancers.Reserved = []int32{int32(c.port()), kubeletPort}
	var err error
	if o.Ranges.ClusterCIDRs, err = podRanges(c.options.PodRange); err != nil {
		return nil, err
	}
	group := &loop.Group{Clients: clients.As(controllers.Program), Entries: controllers.All(o), Select: c.options.Controllers, Identify: asAccount}
	if group.Runs, err = loopmetrics.Runs(c.metrics.Registry, controllers.Program); err != nil {
		return nil, err
	}
	_, err = loop.Select(group.Entries, group.Select)
	return group, err
}

// nodes returns the hollow nodes and this machine's node.
func (c *Cluster) nodes(clients *loop.Clients) ([]loop.Runner, error) {
	var all []loop.Runner
	if c.options.Nodes > 0 {
		pods := loop.Informer(clients, informer.For(clients.Kube.CoreV1().Pods("")))
		o := hollow.Options{Clients: clients, Nodes: c.options.Nodes, Pods: pods, Server: c.access(), As: asNode, LeaseEvery: hollowLeaseEvery, Logger: c.options.Logger}
		if clients.Alone() {
			o.LeaseEvery = aloneLeaseEvery
		}
		nodes, err := hollow.New(o)
		if err != nil {
			return nil, err
		}
		all = append(all, nodes)
	}
	if c.options.Runtime == "" {
		return all, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the node's name: %w", err)
	}
	name = strings.ToLower(name)
	o := kubelet.Options{
		Name: name, Clients: clients.As("kubelet"), Socket: c.options.Runtime, Root: c.options.KubeletRoot, Eviction: pressure.Limits{Hard: c.options.Eviction}, ServeDevices: true, Server: c.access(), Logger: c.options.Logger,
	}
	if o.Root == "" && c.options.Data != "" {
		o.Root = filepath.Join(c.options.Data, "kubelet")
	}
	if c.options.PodRange != "" {
		network, err := c.network(clients, &o)
		if err != nil {
			return nil, err
		}
		all = append(all, as(proxyUser, network))
	}
	machine, err := kubelet.New(o)
	if err != nil {
		return nil, err
	}
	return append(all, loop.Func(func(ctx context.Context) error { return machine.Run(asNode(ctx, name)) })), nil
}

// makesAccounts reports whether a loop makes default service accounts. Without one, the ServiceAccount admission plugin would
// reject all pods.
func (c *Cluster) makesAccounts() bool {
	if len(c.options.Controllers) == 0 {
		return c.options.ControllersElsewhere
	}
	selected, err := loop.Select(controllers.All(controllers.Options{}), c.options.Controllers)
	return err == nil && slices.ContainsFunc(selected, func(e loop.Entry) bool { return e.Name == serviceaccount.Entry.Name })
}
