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

// workersFlag says how many keys a loop works on at the same time.
type workersFlag struct {
	flag, loop string
	n          *int
}

// concurrency are the flags that kube-controller-manager has for that, and the loops that they are for.
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
	c.Flags().StringVar(&f.list, "controllers", "*", `loops to run: "*" all, "foo" one, "-foo" all but one; all are `+strings.Join(all, ", "))
	c.Flags().StringVar(&f.rootCA, "root-ca-file", "", "authorities of the API server, for pods (default: those of the kubeconfig)")
	for _, w := range concurrency {
		w.n = c.Flags().Int(w.flag, 0, "how many keys the "+w.loop+" works on at the same time (0: its own default)")
		f.workers = append(f.workers, w)
	}
	f.addMeasures(c)
	f.signing.add(c)
	f.secure.add(c, 10257)
	return c
}

// addMeasures adds the flags that say what single loops may do.
func (f *controllersFlags) addMeasures(c *cobra.Command) {
	fl, nodes := c.Flags(), &f.measures.Nodes
	fl.DurationVar(&nodes.Grace, "node-monitor-grace-period", 50*time.Second, "how long a node may not answer before it is given up; kubelets answer every ten seconds")
	fl.DurationVar(&nodes.StartupGrace, "node-startup-grace-period", time.Minute, "how long a new node may take to answer for the first time")
	fl.Float64Var(&nodes.Rate, "node-eviction-rate", 0.1, "from how many failing nodes of a zone pods are evicted, in a second")
	fl.Float64Var(&nodes.ReducedRate, "secondary-node-eviction-rate", 0.01, "the same where most nodes of a large zone fail; where it is not large, none are")
	fl.IntVar(&nodes.LargeZone, "large-cluster-size-threshold", 50, "beyond how many nodes a zone is large")
	fl.Float64Var(&nodes.Unhealthy, "unhealthy-zone-threshold", 0.55, "from which share of failing nodes on, and three at least, most of a zone is failing")
	fl.BoolVar(&f.allocate, "allocate-node-cidrs", false, "give each node a range of --cluster-cidr for its pods")
	fl.StringVar(&f.clusterCIDR, "cluster-cidr", "", "where pods are: one range of each family with a comma between")
	fl.IntVar(&f.measures.Ranges.MaskSize4, "node-cidr-mask-size-ipv4", 24, "size of a node's range in IPv4")
	fl.IntVar(&f.measures.Ranges.MaskSize6, "node-cidr-mask-size-ipv6", 64, "size of a node's range in IPv6")
	fl.IntVar(&f.measures.Pods.Threshold, "terminated-pod-gc-threshold", 12500, "how many finished pods may stay; 0: all")
}

// chosen are the options of the loops. What is 0 on the command line is nothing, and not the default.
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

// withWorkers makes a loop work on n keys at the same time.
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
