package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/controllers"
	claimmetrics "github.com/millrace/millrace/controllers/resourceclaim/prommetrics"
	"github.com/millrace/millrace/loop"
)

// controllersFlags are the flags of `millrace controllers`, under kube-controller-manager's names.
type controllersFlags struct {
	clientFlags
	electionFlags
	list, rootCA string
	allocate     bool
	clusterCIDR  string
	workers      []workersFlag
	measures     controllers.Options
	signing      signingFlags
	secure       secureFlags
}

// workersFlag sets how many keys a loop syncs at the same time.
type workersFlag struct {
	flag, loop string
	n          *int
}

// concurrency has kube-controller-manager's flags for workers, and their loops.
var concurrency = []workersFlag{
	{flag: "concurrent-deployment-syncs", loop: "deployment-controller"},
	{flag: "concurrent-replicaset-syncs", loop: "replicaset-controller"},
	{flag: "concurrent-rc-syncs", loop: "replicationcontroller-controller"},
	{flag: "concurrent-resource-quota-syncs", loop: "resourcequota-controller"},
	{flag: "concurrent-endpoint-syncs", loop: "endpoints-controller"},
	{flag: "concurrent-service-endpoint-syncs", loop: "endpointslice-controller"},
	{flag: "mirroring-concurrent-service-endpoint-syncs", loop: "endpointslice-mirroring-controller"},
	{flag: "concurrent-job-syncs", loop: "job-controller"},
	{flag: "concurrent-ttl-after-finished-syncs", loop: "ttl-after-finished-controller"},
}

func controllersCommand() *cobra.Command {
	f := &controllersFlags{}
	c := &cobra.Command{
		Use:   "controllers",
		Short: "Run the controllers alone",
		Long:  "Run the controllers alone, with the flags of kube-controller-manager, against any Kubernetes API server.",
		Args:  cobra.NoArgs,
		RunE:  untilSignal(func(ctx context.Context, c *cobra.Command) error { return f.run(ctx, c.OutOrStdout()) }),
	}
	f.clientFlags.add(c)
	f.electionFlags.add(c, "kube-controller-manager")
	all, _ := loop.Names(controllers.All(controllers.Options{}))
	c.Flags().StringVar(&f.list, "controllers", "*", `loops to run: "*" all that are on by default, "foo" one, "-foo" all but one; all are `+strings.Join(all, ", "))
	c.Flags().StringVar(&f.rootCA, "root-ca-file", "", "CA certificates of the API server, for pods (default: those of the kubeconfig)")
	for _, w := range concurrency {
		w.n = c.Flags().Int(w.flag, 0, "how many keys the loop "+w.loop+" syncs at the same time (0: its own default)")
		f.workers = append(f.workers, w)
	}
	f.addMeasures(c)
	f.signing.add(c)
	f.secure.add(c, 10257)
	return c
}

// addMeasures adds the flags for settings of single loops.
func (f *controllersFlags) addMeasures(c *cobra.Command) {
	fl, nodes := c.Flags(), &f.measures.Nodes
	fl.DurationVar(&nodes.Grace, "node-monitor-grace-period", 50*time.Second, "how long a node may be silent before it is marked unreachable; kubelets send a heartbeat every ten seconds")
	fl.DurationVar(&nodes.StartupGrace, "node-startup-grace-period", time.Minute, "how long a new node may take until its first heartbeat")
	fl.Float64Var(&nodes.Rate, "node-eviction-rate", 0.1, "how many failing nodes per second and zone have their pods evicted")
	fl.Float64Var(&nodes.ReducedRate, "secondary-node-eviction-rate", 0.01, "the same for a large zone in which most nodes fail; in a small one no pods are evicted")
	fl.IntVar(&nodes.LargeZone, "large-cluster-size-threshold", 50, "number of nodes above which a zone is large")
	fl.Float64Var(&nodes.Unhealthy, "unhealthy-zone-threshold", 0.55, "fraction of failing nodes from which most of a zone counts as failing; at least three nodes")
	fl.BoolVar(&f.allocate, "allocate-node-cidrs", false, "assign each node a pod range from --cluster-cidr")
	fl.StringVar(&f.clusterCIDR, "cluster-cidr", "", "pod ranges of the cluster: one for each IP family, separated by a comma")
	fl.IntVar(&f.measures.Ranges.MaskSize4, "node-cidr-mask-size-ipv4", 24, "prefix length of a node's IPv4 range")
	fl.IntVar(&f.measures.Ranges.MaskSize6, "node-cidr-mask-size-ipv6", 64, "prefix length of a node's IPv6 range")
	fl.IntVar(&f.measures.Pods.Threshold, "terminated-pod-gc-threshold", 12500, "how many finished pods are kept; 0: all")
}

// chosen returns the options of the loops. A 0 on the command line means none, not the default.
func (f *controllersFlags) chosen() (controllers.Options, error) {
	o := f.measures
	for flag, d := range map[string]time.Duration{"node-monitor-grace-period": o.Nodes.Grace, "node-startup-grace-period": o.Nodes.StartupGrace} {
		if d <= 0 {
			return o, fmt.Errorf("--%s %v is not more than 0", flag, d)
		}
	}
	if share := o.Nodes.Unhealthy; share <= 0 || share > 1 {
		return o, fmt.Errorf("--unhealthy-zone-threshold %v is not a share of more than 0 and at most 1", share)
	}
	if f.allocate {
		var err error
		if o.Ranges.ClusterCIDRs, err = prefixes("cluster-cidr", f.clusterCIDR); err != nil {
			return o, err
		}
		if len(o.Ranges.ClusterCIDRs) == 0 {
			return o, errors.New("--allocate-node-cidrs needs --cluster-cidr")
		}
	}
	for _, r := range []*float64{&o.Nodes.Rate, &o.Nodes.ReducedRate} {
		if *r == 0 {
			*r = -1
		}
	}
	for _, n := range []*int{&o.Nodes.LargeZone, &o.Pods.Threshold} {
		if *n == 0 {
			*n = -1
		}
	}
	return o, nil
}

func (f *controllersFlags) run(ctx context.Context, out io.Writer) error {
	election, err := f.election()
	if err != nil {
		return err
	}
	words, err := selection(f.list)
	if err != nil {
		return err
	}
	if err := files(map[string]string{"root-ca-file": f.rootCA}); err != nil {
		return err
	}
	for _, w := range f.workers {
		if *w.n < 0 {
			return fmt.Errorf("--%s %d is less than 0", w.flag, *w.n)
		}
	}
	measures, err := f.chosen()
	if err != nil {
		return err
	}
	if measures.Signing, err = f.signing.signing(); err != nil {
		return err
	}
	clients, config, err := f.clients(out)
	if err != nil {
		return err
	}
	measures.RootCA = config.CAData
	if f.rootCA != "" {
		if measures.RootCA, err = os.ReadFile(f.rootCA); err != nil {
			return err
		}
	}
	told, err := newTelling(clients, func() map[string]any {
		return map[string]any{"kubecontrollermanager.config.k8s.io": map[string]any{"Generic": map[string]any{"Controllers": words, "LeaderElection": f.electionFlags.told()}}}
	})
	if err != nil {
		return err
	}
	if measures.Claims.Metrics, err = claimmetrics.New(told.metrics); err != nil {
		return err
	}
	tells, err := f.secure.serve(ctx, clients, config.CAData, told)
	if err != nil {
		return err
	}
	group := &loop.Group{Clients: clients.As(controllers.Program), Entries: f.entries(measures), Select: words, Election: election}
	if len(words) == 0 {
		group.Entries = nil // an empty list runs none
	}
	return loop.Run(ctx, clients, group, tells)
}

func (f *controllersFlags) entries(measures controllers.Options) []loop.Entry {
	entries := controllers.All(measures)
	for i := range entries {
		for _, w := range f.workers {
			if w.loop == entries[i].Name && *w.n > 0 {
				entries[i] = withWorkers(entries[i], *w.n)
			}
		}
	}
	return entries
}

// loopOf returns the loop in a runner, or nil.
func loopOf(r loop.Runner) *loop.Loop {
	switch r := r.(type) {
	case *loop.Loop:
		return r
	case interface{ Loop() *loop.Loop }:
		return r.Loop()
	}
	return nil
}

// withWorkers sets how many keys a loop syncs at the same time.
func withWorkers(e loop.Entry, n int) loop.Entry {
	alone := e.New
	e.New = func(c *loop.Clients) (loop.Runner, error) {
		r, err := alone(c)
		if l := loopOf(r); l != nil {
			l.Workers = n
		}
		return r, err
	}
	return e
}
