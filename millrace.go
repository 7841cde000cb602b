// Package millrace runs a Kubernetes control plane inside the calling process: a store, an API server with a watch cache,
// controllers, a scheduler and as many hollow nodes as wanted.
//
//	cluster, err := millrace.Start(ctx, millrace.Options{})
//	if err != nil { … }
//	defer cluster.Close()
//	clientset, err := kubernetes.NewForConfig(cluster.Config())
//
// What is guaranteed: when Start returns without an error the API answers, the default namespaces and the kubernetes
// service exist; when Close returns no goroutine, file lock or port of the cluster is left. Clusters share nothing, so
// that many can run side by side. The zero Options keep everything in memory and listen on a free port of the loopback
// interface.
package millrace

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"

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
	address      string         // where the server listens
	advertised   netip.AddrPort // where pods reach it, if they can
	inside       *inprocess.Transport
	metrics      *metrics.Metrics
	permissions  *permissions         // who may do what
	fairness     *fairness.Dispatcher // nil if requests are only counted
	extensions   extensions
	// definitions serves custom resources.
	definitions *custom.Definitions
	aggregator  *aggregation.Aggregator // who else serves groups of the API

	// stages are what runs, in the order in which it was started. They end in the reverse order.
	stages []*stage
	once   sync.Once
	failed chan error
}

// Start starts a cluster and returns when it is ready. ctx bounds the start only; Close ends the cluster.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	o.setDefaults()
	if err := o.checkBubble(); err != nil {
		return nil, err
	}
	c := &Cluster{options: o, failed: make(chan error, 1)}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Config is how client-go reaches the cluster, as its administrator. Without a port it is what InProcess returns.
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

// InProcess is a client configuration that reaches the API without a connection: the same API and the same bytes, less the
// cost of a network. It ends with the cluster.
func (c *Cluster) InProcess() *rest.Config {
	return &rest.Config{Host: "https://in.process", Transport: c.inside, QPS: -1, WarningHandler: rest.NoWarnings{}}
}

// URL is where the API is served, or empty if there is no port. A server that listens everywhere is reached by the loopback
// interface.
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

// Failed yields an error if something that must run has ended by itself.
func (c *Cluster) Failed() <-chan error { return c.failed }

// Close ends the cluster and waits until nothing of it is running.
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
