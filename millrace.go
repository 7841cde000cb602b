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
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/server/inprocess"
	"github.com/millrace/millrace/server/metrics"
	"github.com/millrace/millrace/server/pki"
)

// Options say what runs and where.
type Options struct {
	// Data is the folder that keeps the cluster: etcd's data and the keys. Empty, or "memory", keeps nothing.
	Data string
	// Keys is the folder of keys and certificates: "pki" in the data folder by default.
	Keys string
	// Etcd names the servers of an etcd cluster to use instead of the embedded one.
	Etcd EtcdOptions
	// Listen is where the API is served: "127.0.0.1:0" by default. Port 0 takes a free one. With "none" there is no port, and the
	// API is reached from this process alone. A cluster in memory that has no port, kubelets of real containers aside, touches
	// nothing outside the process: it can live inside a bubble of testing/synctest, in virtual time.
	Listen string
	// Hosts are further names and addresses in the server's certificate.
	Hosts []string
	// TokenFile lists static tokens, as kube-apiserver's --token-auth-file does.
	TokenFile string
	// Controllers selects the loops, in the words of kube-controller-manager's --controllers: "*" for all that are on by
	// default, "foo" for one, "-foo" for all but one. Nil is "*"; an empty list runs none.
	Controllers []string
	// ControllersElsewhere says that they run in another process, so that pods get accounts as if they ran here.
	ControllersElsewhere bool
	// NoScheduler leaves pods without a node.
	NoScheduler bool
	// Nodes is how many hollow nodes run: nodes whose containers are pretended.
	Nodes int
	// Runtime is the socket of a container runtime (CRI). With it this machine becomes a node.
	Runtime string
	// ServiceRange is where services get their addresses: 10.96.0.0/16 by default.
	ServiceRange string
	// AllowPrivileged lets pods have privileged containers.
	AllowPrivileged bool
	// Uncached names group-resources ("configmaps", "deployments.apps") that are served without a watch cache; "*" is all
	// of them.
	Uncached []string
	// Window bounds, for a group-resource, how much history the watch cache keeps. Nil, and zeros, are the defaults.
	Window func(groupResource string) (events, bytes int)
	// CompactEvery is how long the store keeps history: five minutes by default, for ever if less than zero.
	CompactEvery time.Duration
	// Serving bounds what is served, and by which certificates.
	Serving ServingOptions
	// Logger gets what happens; nil discards it.
	Logger *slog.Logger
}

// noPort is the address of a server that does not listen.
const noPort = "none"

// EtcdOptions say how to reach an etcd cluster.
type EtcdOptions struct {
	Servers                   []string
	CertFile, KeyFile, CAFile string
}

// Cluster is a running control plane.
type Cluster struct {
	options Options
	keys    *pki.Keys
	address string
	inside  *inprocess.Transport
	metrics *metrics.Metrics

	// stages are what runs, in the order in which it was started. They end in the reverse order.
	stages []*stage
	once   sync.Once
	failed chan error
}

// Start starts a cluster and returns when it is ready. ctx bounds the start only; Close ends the cluster.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	o.setDefaults()
	c := &Cluster{options: o, failed: make(chan error, 1)}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (o *Options) setDefaults() {
	if o.Data == "memory" {
		o.Data = ""
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if o.ServiceRange == "" {
		o.ServiceRange = "10.96.0.0/16"
	}
	if o.Controllers == nil {
		o.Controllers = []string{"*"}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Config is how client-go reaches the cluster, as its administrator. Without a port it is what InProcess returns.
func (c *Cluster) Config() *rest.Config {
	if c.options.Listen == noPort {
		return c.InProcess()
	}
	return &rest.Config{
		Host: c.URL(),
		TLSClientConfig: rest.TLSClientConfig{
			CAData: c.authorities(), CertData: c.keys.Admin.CertPEM, KeyData: c.keys.Admin.KeyPEM,
		},
		QPS: -1,
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

// stage is one part of a cluster: goroutines that end with a context, and what is closed after them.
type stage struct {
	name    string
	cancel  context.CancelCauseFunc
	running sync.WaitGroup
	close   func() error
}

var errClosing = errors.New("the cluster is closing")

// run starts a part. What ends before it is told to is reported.
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

// opened notes something that is to be closed.
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
