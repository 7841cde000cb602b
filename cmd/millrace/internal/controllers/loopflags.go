package controllers

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/internal/controllers"
	"github.com/millrace/millrace/loop"
)

// loopFlags are settings of single loops, under kube-controller-manager's names.
type loopFlags struct {
	set                       controllers.Options
	allocate                  bool
	clusterCIDR, serviceRange string
	maskSize                  int
	provisions, collects      bool
	workers                   []int // as in concurrency
}

// concurrency has kube-controller-manager's flags for workers, and the loops whose number of workers they set.
var concurrency = []struct {
	flag  string
	loops []string
}{
	{"concurrent-cron-job-syncs", []string{"cronjob-controller"}},
	{"concurrent-daemonset-syncs", []string{"daemonset-controller"}},
	{"concurrent-deployment-syncs", []string{"deployment-controller"}},
	{"concurrent-device-taint-eviction-syncs", []string{"device-taint-eviction-controller"}},
	{"concurrent-disruption-syncs", []string{"disruption-controller"}},
	{"concurrent-endpoint-syncs", []string{"endpoints-controller"}},
	{"concurrent-ephemeralvolume-syncs", []string{"ephemeral-volume-controller"}},
	{"concurrent-gc-syncs", []string{"garbage-collector-controller"}},
	{"concurrent-horizontal-pod-autoscaler-syncs", []string{"horizontal-pod-autoscaler-controller"}},
	{"concurrent-job-syncs", []string{"job-controller"}},
	{"concurrent-namespace-syncs", []string{"namespace-controller"}},
	{"concurrent-rc-syncs", []string{"replicationcontroller-controller"}},
	{"concurrent-replicaset-syncs", []string{"replicaset-controller"}},
	{"concurrent-resource-quota-syncs", []string{"resourcequota-controller"}},
	{"concurrent-resourceclaim-syncs", []string{"resourceclaim-controller", "resourceclaim-controller-claims"}},
	{"concurrent-service-endpoint-syncs", []string{"endpointslice-controller"}},
	{"concurrent-service-syncs", []string{"service-lb-controller"}},
	{"concurrent-serviceaccount-token-syncs", []string{"serviceaccount-token-controller"}},
	{"concurrent-statefulset-syncs", []string{"statefulset-controller"}},
	{"concurrent-ttl-after-finished-syncs", []string{"ttl-after-finished-controller"}},
	{"concurrent-validating-admission-policy-status-syncs", []string{"validatingadmissionpolicy-status-controller"}},
	{"mirroring-concurrent-service-endpoint-syncs", []string{"endpointslice-mirroring-controller"}},
}

func (f *loopFlags) add(fl *pflag.FlagSet) {
	f.workers = make([]int, len(concurrency))
	for i, c := range concurrency {
		fl.IntVar(&f.workers[i], c.flag, 0, "how many keys the loop "+c.loops[0]+" syncs at the same time (0: its own default)")
	}
	f.addNodes(fl)
	a := &f.set.Autoscaling
	fl.DurationVar(&a.SyncPeriod, "horizontal-pod-autoscaler-sync-period", 15*time.Second, "time between two evaluations of an autoscaler")
	fl.DurationVar(&a.DownscaleStabilization, "horizontal-pod-autoscaler-downscale-stabilization", 5*time.Minute, "window in which the highest recommendation counts")
	fl.DurationVar(&a.CPUInitialization, "horizontal-pod-autoscaler-cpu-initialization-period", 5*time.Minute, "how long after its start a pod's CPU usage counts only while the pod is ready")
	fl.DurationVar(&a.InitialReadiness, "horizontal-pod-autoscaler-initial-readiness-delay", 30*time.Second, "how long after its start a pod that is not ready counts as never having been ready")
	fl.Float64Var(&a.Tolerance, "horizontal-pod-autoscaler-tolerance", 0.1, "how much the ratio of usage to target may differ from 1 without scaling")
	fl.IntVar(&f.set.Pods.Threshold, "terminated-pod-gc-threshold", 12500, "how many finished pods are kept; 0: all")
	fl.BoolVar(&f.provisions, "enable-dynamic-provisioning", true, "have volumes made for claims that name a storage class")
	fl.BoolVar(&f.set.Attaching.NeverForce, "disable-force-detach-on-timeout", false,
		"leave the volumes of a node attached that is not ready, until they are unmounted or the node is tainted as out of service")
	fl.DurationVar(&f.set.Cleaning.Period, "legacy-service-account-token-clean-up-period", 365*24*time.Hour,
		"how long a token in a secret that Kubernetes has made must not have been used until it is marked as invalid, and then until it is deleted")
	fl.BoolVar(&f.collects, "enable-garbage-collector", true, "delete objects whose owners are gone")
}

// addNodes adds the flags for nodes.
func (f *loopFlags) addNodes(fl *pflag.FlagSet) {
	nodes := &f.set.Nodes
	fl.DurationVar(&nodes.Grace, "node-monitor-grace-period", 50*time.Second, "how long a node may be silent before it is marked unreachable; kubelets send a heartbeat every ten seconds")
	fl.DurationVar(&nodes.StartupGrace, "node-startup-grace-period", time.Minute, "how long a new node may take until its first heartbeat")
	fl.Float64Var(&nodes.Rate, "node-eviction-rate", 0.1, "how many failing nodes per second and zone have their pods evicted")
	fl.Float64Var(&nodes.ReducedRate, "secondary-node-eviction-rate", 0.01, "the same for a large zone in which most nodes fail; in a small one no pods are evicted")
	fl.IntVar(&nodes.LargeZone, "large-cluster-size-threshold", 50, "number of nodes above which a zone is large")
	fl.Float64Var(&nodes.Unhealthy, "unhealthy-zone-threshold", 0.55, "fraction of failing nodes from which most of a zone counts as failing; at least three nodes")
	fl.BoolVar(&f.allocate, "allocate-node-cidrs", false, "assign each node a pod range from --cluster-cidr")
	fl.StringVar(&f.clusterCIDR, "cluster-cidr", "", "pod ranges of the cluster: one for each IP family, separated by a comma")
	fl.StringVar(&f.serviceRange, "service-cluster-ip-range", "", "address ranges of services, from which no node gets a range: one for each IP family, separated by a comma")
	fl.IntVar(&f.maskSize, "node-cidr-mask-size", 0, "prefix length of a node's range if the cluster has one IP family (default: 24 for IPv4, 64 for IPv6)")
	fl.IntVar(&f.set.Ranges.MaskSize4, "node-cidr-mask-size-ipv4", 0, "prefix length of a node's IPv4 range (default 24)")
	fl.IntVar(&f.set.Ranges.MaskSize6, "node-cidr-mask-size-ipv6", 0, "prefix length of a node's IPv6 range (default 64)")
}

// check reports wrong values.
func (f *loopFlags) check() error {
	for i, c := range concurrency {
		if n := f.workers[i]; n < 0 {
			return fmt.Errorf("--%s %d is less than 0", c.flag, n)
		}
	}
	for flag, d := range map[string]time.Duration{
		"node-monitor-grace-period": f.set.Nodes.Grace, "node-startup-grace-period": f.set.Nodes.StartupGrace,
		"horizontal-pod-autoscaler-sync-period": f.set.Autoscaling.SyncPeriod, "legacy-service-account-token-clean-up-period": f.set.Cleaning.Period,
	} {
		if d <= 0 {
			return fmt.Errorf("--%s %v is not more than 0", flag, d)
		}
	}
	if share := f.set.Nodes.Unhealthy; share <= 0 || share > 1 {
		return fmt.Errorf("--unhealthy-zone-threshold %v is not a share of more than 0 and at most 1", share)
	}
	return nil
}

// options returns the options of the loops. A 0 on the command line means none, not the default.
func (f *loopFlags) options() (controllers.Options, error) {
	o := f.set
	if err := f.ranges(&o); err != nil {
		return o, err
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
	a := &o.Autoscaling
	for _, d := range []*time.Duration{&a.DownscaleStabilization, &a.CPUInitialization, &a.InitialReadiness} {
		*d = max(*d, 1)
	}
	a.Tolerance = max(a.Tolerance, math.SmallestNonzeroFloat64)
	o.Claiming.NoProvisioning = !f.provisions
	return o, nil
}

// ranges sets where nodes get the ranges for their pods from.
func (f *loopFlags) ranges(o *controllers.Options) error {
	if !f.allocate {
		return nil
	}
	all, err := flags.Prefixes("cluster-cidr", f.clusterCIDR)
	switch {
	case err != nil:
		return err
	case len(all) == 0:
		return errors.New("--allocate-node-cidrs needs --cluster-cidr")
	}
	o.Ranges.ClusterCIDRs = all
	if o.Ranges.Taken, err = flags.Prefixes("service-cluster-ip-range", f.serviceRange); err != nil {
		return err
	}
	if f.maskSize == 0 {
		return nil
	}
	if len(all) > 1 || o.Ranges.MaskSize4 != 0 || o.Ranges.MaskSize6 != 0 {
		return errors.New("--node-cidr-mask-size is for clusters with one IP family: use --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 alone")
	}
	o.Ranges.MaskSize4, o.Ranges.MaskSize6 = f.maskSize, f.maskSize
	return nil
}

// workersOf returns how many keys a loop syncs at the same time, or 0 if no flag says that.
func (f *loopFlags) workersOf(loop string) int {
	for i, c := range concurrency {
		if slices.Contains(c.loops, loop) {
			return f.workers[i]
		}
	}
	return 0
}

// entries returns all loops that may run.
func (f *loopFlags) entries(o controllers.Options) []loop.Entry {
	return slices.DeleteFunc(controllers.All(o), func(e loop.Entry) bool { return e.Name == "garbage-collector-controller" && !f.collects })
}
