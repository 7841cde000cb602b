// Package client has the flags of programs that use the API: where it is, how fast they may ask, and who of several
// leads.
package client

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

	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/loop/prommetrics"
)

// Flags are the flags of commands that use the API as clients.
type Flags struct {
	Kubeconfig, Master string
	Log                flags.Log
	Pace               paceFlags
	// adapt changes the client configuration before clients are made from it. It may be nil.
	Adapt func(*rest.Config) error
	// registry has the metrics of the process from when the clients are made.
	Registry *prometheus.Registry
}

// paceFlags configure the requests of clients, under Kubernetes' names.
type paceFlags struct {
	PerSecond   float32
	Burst       int
	ContentType string
}

func (f *paceFlags) Add(fl *pflag.FlagSet) {
	fl.Float32Var(&f.PerSecond, "kube-api-qps", 0, "how many requests a loop may send per second, after a burst (0: no limit, because the API server protects itself)")
	fl.IntVar(&f.Burst, "kube-api-burst", 30, "how many requests a loop may send at once, if --kube-api-qps limits them")
	fl.StringVar(&f.ContentType, "kube-api-content-type", runtime.ContentTypeProtobuf, "content type of requests to the API server")
}

func (f *Flags) Add(c *cobra.Command) {
	c.Flags().StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig of the API server (default: $KUBECONFIG, ~/.kube/config, or the pod's service account)")
	c.Flags().StringVar(&f.Master, "master", "", "address of the API server, overrides the kubeconfig")
	f.Log.Add(c)
}

// Config finds the client configuration.
func (f *Flags) Config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{}
	overrides.ClusterInfo.Server = f.Master
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("no kubeconfig is there: name one with --kubeconfig or $KUBECONFIG; the API server writes one into its data directory")
	case err != nil:
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return config, rest.LoadTLSFiles(config)
}

// Clients connects to the API server.
func (f *Flags) Clients(out io.Writer) (*loop.Clients, *rest.Config, error) {
	log, err := f.Log.Logger(os.Stderr)
	if err != nil {
		return nil, nil, err
	}
	config, err := f.Config()
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
func (f *Flags) connect(config *rest.Config, log *slog.Logger) (*loop.Clients, error) {
	f.Registry = prometheus.NewRegistry()
	requests, err := prommetrics.NewRequests(f.Registry)
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	if f.Adapt != nil {
		if err := f.Adapt(config); err != nil {
			return nil, err
		}
	}
	waited := requests.Measure(config)
	if f.Pace.PerSecond > 0 {
		loop.LimitRequests(config, f.Pace.PerSecond, f.Pace.Burst, waited)
	}
	if f.Pace.ContentType != runtime.ContentTypeProtobuf {
		config.ContentType = f.Pace.ContentType
	}
	return loop.NewClients(config, log)
}

// ElectionFlags configure leader election.
type ElectionFlags struct {
	Elect               bool
	Lease, Renew, Retry time.Duration
	Name, Namespace     string
	Lock                string
}

func (f *ElectionFlags) Add(c *cobra.Command, name string) {
	fl := c.Flags()
	fl.BoolVar(&f.Elect, "leader-elect", true, "run only while this process is the leader")
	fl.DurationVar(&f.Lease, "leader-elect-lease-duration", 15*time.Second, "how long other processes wait for a leader that does not renew its lease")
	fl.DurationVar(&f.Renew, "leader-elect-renew-deadline", 10*time.Second, "how long the leader tries to renew its lease before it stops")
	fl.DurationVar(&f.Retry, "leader-elect-retry-period", 2*time.Second, "time between two tries")
	fl.StringVar(&f.Lock, "leader-elect-resource-lock", "leases", "kind of the lock; only leases are supported")
	fl.StringVar(&f.Name, "leader-elect-resource-name", name, "name of the lease")
	fl.StringVar(&f.Namespace, "leader-elect-resource-namespace", "kube-system", "namespace of the lease")
}

// Election returns nil without --leader-elect.
func (f *ElectionFlags) Election() (*loop.Election, error) {
	switch {
	case !f.Elect:
		return nil, nil
	case f.Lock != "leases":
		return nil, fmt.Errorf("--leader-elect-resource-lock %q is not supported: only leases are", f.Lock)
	case f.Retry <= 0:
		return nil, fmt.Errorf("--leader-elect-retry-period %v is not more than 0", f.Retry)
	case f.Lease <= f.Renew:
		return nil, fmt.Errorf("--leader-elect-lease-duration %v is not longer than --leader-elect-renew-deadline %v", f.Lease, f.Renew)
	case f.Renew <= f.Retry*6/5: // a try may come up to 20 % later, at random
		return nil, fmt.Errorf("--leader-elect-renew-deadline %v is not longer than 1.2 times --leader-elect-retry-period %v", f.Renew, f.Retry)
	}
	return &loop.Election{
		Lease: loop.Key{Namespace: f.Namespace, Name: f.Name}, LeaseDuration: f.Lease, RenewDeadline: f.Renew, RetryPeriod: f.Retry,
	}, nil
}

// Measured adds metrics to an election, unless it is nil.
func Measured(e *loop.Election, registry *prometheus.Registry) (*loop.Election, error) {
	if e == nil {
		return nil, nil
	}
	var err error
	e.Metrics, err = prommetrics.NewElection(registry, e.Lease.Name)
	return e, err
}

// Told returns the election's configuration for /configz.
func (f *ElectionFlags) Told() map[string]any {
	return map[string]any{
		"LeaderElect": f.Elect, "LeaseDuration": f.Lease.String(), "RenewDeadline": f.Renew.String(), "RetryPeriod": f.Retry.String(),
		"ResourceLock": f.Lock, "ResourceName": f.Name, "ResourceNamespace": f.Namespace,
	}
}
