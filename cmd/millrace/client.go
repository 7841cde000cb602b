package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/loop/prommetrics"
)

// clientFlags are the flags of commands that use the API as clients.
type clientFlags struct {
	kubeconfig, master string
	log                logFlags
	pace               paceFlags
	// adapt changes the client configuration before clients are made from it. It may be nil.
	adapt func(*rest.Config) error
	// registry has the metrics of the process from when the clients are made.
	registry *prometheus.Registry
}

// paceFlags configure the requests of clients, under Kubernetes' names.
type paceFlags struct {
	perSecond   float32
	burst       int
	contentType string
}

func (f *paceFlags) add(fl *pflag.FlagSet) {
	fl.Float32Var(&f.perSecond, "kube-api-qps", 0, "how many requests a loop may send per second, after a burst (0: no limit, because the API server protects itself)")
	fl.IntVar(&f.burst, "kube-api-burst", 30, "how many requests a loop may send at once, if --kube-api-qps limits them")
	fl.StringVar(&f.contentType, "kube-api-content-type", runtime.ContentTypeProtobuf, "content type of requests to the API server")
}

func (f *clientFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the API server (default: $KUBECONFIG, ~/.kube/config, or the pod's service account)")
	c.Flags().StringVar(&f.master, "master", "", "address of the API server, overrides the kubeconfig")
	f.log.add(c)
}

// config finds the client configuration.
func (f *clientFlags) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	overrides := &clientcmd.ConfigOverrides{}
	overrides.ClusterInfo.Server = f.master
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("no kubeconfig is there: name one with --kubeconfig or $KUBECONFIG; the API server writes one into its data directory")
	case err != nil:
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return config, rest.LoadTLSFiles(config)
}

// clients connects to the API server.
func (f *clientFlags) clients(out io.Writer) (*loop.Clients, *rest.Config, error) {
	log, err := f.log.logger(os.Stderr)
	if err != nil {
		return nil, nil, err
	}
	config, err := f.config()
	if err != nil {
		return nil, nil, err
	}
	clients, err := f.connect(config, log)
	if err != nil {
		return nil, nil, err
	}
	fmt.Fprintf(out, "Working for %s. Ctrl-C ends it.\n", config.Host)
	return clients, config, nil
}

// connect makes the clients, which are measured and as fast as the flags say.
func (f *clientFlags) connect(config *rest.Config, log *slog.Logger) (*loop.Clients, error) {
	f.registry = prometheus.NewRegistry()
	requests, err := prommetrics.NewRequests(f.registry)
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	if f.adapt != nil {
		if err := f.adapt(config); err != nil {
			return nil, err
		}
	}
	waited := requests.Measure(config)
	if f.pace.perSecond > 0 {
		loop.LimitRequests(config, f.pace.perSecond, f.pace.burst, waited)
	}
	if f.pace.contentType != runtime.ContentTypeProtobuf {
		config.ContentType = f.pace.contentType
	}
	return loop.NewClients(config, log)
}

// electionFlags configure leader election.
type electionFlags struct {
	elect               bool
	lease, renew, retry time.Duration
	name, namespace     string
	lock                string
}

func (f *electionFlags) add(c *cobra.Command, name string) {
	fl := c.Flags()
	fl.BoolVar(&f.elect, "leader-elect", true, "run only while this process is the leader")
	fl.DurationVar(&f.lease, "leader-elect-lease-duration", 15*time.Second, "how long other processes wait for a leader that does not renew its lease")
	fl.DurationVar(&f.renew, "leader-elect-renew-deadline", 10*time.Second, "how long the leader tries to renew its lease before it stops")
	fl.DurationVar(&f.retry, "leader-elect-retry-period", 2*time.Second, "time between two tries")
	fl.StringVar(&f.lock, "leader-elect-resource-lock", "leases", "kind of the lock; only leases are supported")
	fl.StringVar(&f.name, "leader-elect-resource-name", name, "name of the lease")
	fl.StringVar(&f.namespace, "leader-elect-resource-namespace", "kube-system", "namespace of the lease")
}

// election returns nil without --leader-elect.
func (f *electionFlags) election() (*loop.Election, error) {
	switch {
	case !f.elect:
		return nil, nil
	case f.lock != "leases":
		return nil, fmt.Errorf("--leader-elect-resource-lock %q is not supported: only leases are", f.lock)
	case f.retry <= 0:
		return nil, fmt.Errorf("--leader-elect-retry-period %v is not more than 0", f.retry)
	case f.lease <= f.renew:
		return nil, fmt.Errorf("--leader-elect-lease-duration %v is not longer than --leader-elect-renew-deadline %v", f.lease, f.renew)
	case f.renew <= f.retry*6/5: // a try may come up to 20 % later, at random
		return nil, fmt.Errorf("--leader-elect-renew-deadline %v is not longer than 1.2 times --leader-elect-retry-period %v", f.renew, f.retry)
	}
	return &loop.Election{
		Lease: loop.Key{Namespace: f.namespace, Name: f.name}, LeaseDuration: f.lease, RenewDeadline: f.renew, RetryPeriod: f.retry,
	}, nil
}

// measured adds metrics to an election, unless it is nil.
func measured(e *loop.Election, registry *prometheus.Registry) (*loop.Election, error) {
	if e == nil {
		return nil, nil
	}
	var err error
	e.Metrics, err = prommetrics.NewElection(registry, e.Lease.Name)
	return e, err
}

// told returns the election's configuration for /configz.
func (f *electionFlags) told() map[string]any {
	return map[string]any{
		"LeaderElect": f.elect, "LeaseDuration": f.lease.String(), "RenewDeadline": f.renew.String(), "RetryPeriod": f.retry.String(),
		"ResourceLock": f.lock, "ResourceName": f.name, "ResourceNamespace": f.namespace,
	}
}
