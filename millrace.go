// Package millrace runs a Kubernetes control plane inside the calling process: a store, an API server with a watch cache,
// controllers, a scheduler and any number of hollow nodes.
//
//	cluster, err := millrace.Start(ctx, millrace.Options{})
//	if err != nil { … }
//	defer cluster.Close()
//	clientset, err := kubernetes.NewForConfig(cluster.Config())
//
// Guarantees: when Start returns without an error, the API answers and the default namespaces and the Service "kubernetes" exist.
// When Close returns, no goroutine, file lock or port of the cluster is left. Clusters share nothing, so many can run side by
// side. The zero Options keep everything in memory and listen on a free port of the loopback interface.
package millrace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/server/aggregation"
	"github.com/millrace/millrace/internal/server/custom"
	"github.com/millrace/millrace/internal/server/fairness"
	"github.com/millrace/millrace/internal/server/inprocess"
	"github.com/millrace/millrace/internal/server/metrics"
)

// Cluster is a running control plane.
type Cluster struct {
	options      Options
	certificates *certificates
	address      string         // the listener's address
	advertised   netip.AddrPort // where pods reach the server; invalid if they cannot
	inside       *inprocess.Transport
	metrics      *metrics.Metrics
	permissions  *permissions         // the authorizers
	fairness     *fairness.Dispatcher // nil without API Priority and Fairness
	extensions   extensions
	// definitions serves custom resources.
	definitions *custom.Definitions
	aggregator  *aggregation.Aggregator // serves aggregated API groups

	// stages are the running parts, in the order in which they were started. They are stopped in reverse order.
	stages []*stage
	once   sync.Once
	ending atomic.Bool // Close was called
	failed chan error
}

// Start starts a cluster and returns when it is ready. ctx only limits the start; Close stops the cluster.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	o.setDefaults()
	if err := o.checkBubble(); err != nil {
		return nil, err
	}
	if b := o.LoadBalancer; b != "" && b != "none" && b != balancedByNodes {
		return nil, fmt.Errorf("%q as the load balancer is neither node nor none", b)
	}
	c := &Cluster{options: o, failed: make(chan error, 1)}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Config returns the administrator's client configuration. Without a port it is the one of InProcess.
func (c *Cluster) Config() *rest.Config {
	if c.options.Listen == noPort {
		return c.InProcess()
	}
	admin := c.certificates.keys.Keys().Admin
	return &rest.Config{
		Host:            c.URL(),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.authorities(), CertData: admin.CertPEM, KeyData: admin.KeyPEM},
		QPS:             -1,
	}
}

// InProcess returns a client configuration that calls the API without a connection: the same API and the same bytes, without the
// cost of a network. It can be used until the cluster is closed.
func (c *Cluster) InProcess() *rest.Config {
	return &rest.Config{Host: "https://in.process", Transport: c.inside, QPS: -1, WarningHandler: rest.NoWarnings{}}
}

// URL returns the URL of the API, or "" if there is no port. For a server that listens on all addresses it has the loopback
// address.
func (c *Cluster) URL() string {
	if c.options.Listen == noPort {
		return ""
	}
	host, port, err := net.SplitHostPort(c.address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return "https://" + c.address
	}
	return "https://127.0.0.1:" + port
}

// Failed receives an error if a part that must run has ended by itself.
func (c *Cluster) Failed() <-chan error { return c.failed }

// Close stops the cluster and waits until nothing of it is running.
func (c *Cluster) Close() error {
	var err error
	c.once.Do(func() {
		for i := len(c.stages) - 1; i >= 0; i-- {
			c.options.Logger.Debug("stopping", "part", c.stages[i].name)
			err = errors.Join(err, c.stages[i].end())
		}
	})
	return err
}

// stage is one part of a cluster: goroutines that end with a context, and resources that are closed after them.
type stage struct {
	name    string
	cancel  context.CancelCauseFunc
	running sync.WaitGroup
	close   func() error
}

var errClosing = errors.New("the cluster is closing")

// run starts a part. If it ends before the cluster is closed, that is reported to Failed.
func (c *Cluster) run(name string, parts ...func(context.Context) error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	s := &stage{name: name, cancel: cancel}
	c.stages = append(c.stages, s)
	for _, part := range parts {
		s.running.Go(func() {
			err := part(ctx)
			if ctx.Err() != nil {
				return
			}
			select {
			case c.failed <- fmt.Errorf("%s ended: %w", name, err):
			default:
			}
		})
	}
}

// opened registers something that must be closed.
func (c *Cluster) opened(name string, close func() error) {
	c.stages = append(c.stages, &stage{name: name, cancel: func(error) {}, close: close})
}

func (s *stage) end() error {
	s.cancel(errClosing)
	s.running.Wait()
	if s.close == nil {
		return nil
	}
	return s.close()
}

// Version returns the Kubernetes version of the API.
func Version() version.Info {
	return version.Info{
		Major: "1", Minor: "37", GitVersion: "v1.37.0+millrace", GitTreeState: "clean", GoVersion: runtime.Version(),
		Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
		EmulationMajor: "1", EmulationMinor: "37", MinCompatibilityMajor: "1", MinCompatibilityMinor: "36",
	}
}
