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
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/server/aggregation"
	"github.com/millrace/millrace/server/custom"
	"github.com/millrace/millrace/server/fairness"
	"github.com/millrace/millrace/server/inprocess"
	"github.com/millrace/millrace/server/metrics"
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
