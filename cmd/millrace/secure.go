package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/kubelet/credentials"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/loop/secure"
	"github.com/millrace/millrace/queue/prommetrics"
)

// secureFlags configure the HTTPS port for health and metrics, under the names of kube-controller-manager and kube-scheduler.
type secureFlags struct {
	address, clientCA, certFile, keyFile, delegate, authorize string
	port                                                      int
	open                                                      []string
}

func (f *secureFlags) add(c *cobra.Command, port int) {
	fl := c.Flags()
	fl.StringVar(&f.address, "bind-address", "0.0.0.0", "listen address for health, metrics and configuration")
	fl.IntVar(&f.port, "secure-port", port, "port for health, metrics and configuration; 0: none")
	fl.StringVar(&f.clientCA, "client-ca-file", "", "CA certificates of clients (default: those of the kubeconfig)")
	fl.StringVar(&f.certFile, "tls-cert-file", "", "serving certificate; it is reloaded when it changes (default: a self-signed one)")
	fl.StringVar(&f.keyFile, "tls-private-key-file", "", "key of the serving certificate")
	fl.StringVar(&f.delegate, "authentication-kubeconfig", "", "kubeconfig of the API server that authenticates clients' tokens (default: as --kubeconfig)")
	fl.StringVar(&f.authorize, "authorization-kubeconfig", "", "kubeconfig of the API server that authorizes clients (default: as --kubeconfig)")
	fl.StringSliceVar(&f.open, "authorization-always-allow-paths", []string{"/healthz", "/readyz", "/livez"}, `paths that need no authorization; one that ends in "/*" includes all paths below`)
}

// telling has what is served on the HTTPS port.
type telling struct {
	metrics *prometheus.Registry
	config  func() map[string]any
	checks  []secure.Check
}

// newTelling makes the metrics of a process, including those of the clients' queues.
func newTelling(clients *loop.Clients, config func() map[string]any) (*telling, error) {
	t := &telling{metrics: prometheus.NewRegistry(), config: config}
	t.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo())
	var err error
	if clients.Metrics, err = prommetrics.New(t.metrics); err != nil {
		return nil, err
	}
	t.checks = []secure.Check{{Name: "informer-sync", Ready: true, Do: func(r *http.Request) error {
		now, cancel := context.WithCancel(r.Context())
		cancel()
		return clients.Informers.Synced(now)
	}}}
	return t, nil
}

// serve opens the port. The returned runner serves it and reloads the certificate.
func (f *secureFlags) serve(ctx context.Context, clients *loop.Clients, authorities []byte, t *telling) (loop.Runner, error) {
	if f.port == 0 {
		return loop.Join(), nil
	}
	kube, err := f.kube(clients)
	if err != nil {
		return nil, err
	}
	o := secure.Options{Kube: kube, Open: f.open, Checks: t.checks, Metrics: t.metrics, Configuration: t.config, Logger: clients.Log, Hosts: []string{f.address}}
	if f.clientCA != "" {
		if authorities, err = os.ReadFile(f.clientCA); err != nil {
			return nil, fmt.Errorf("--client-ca-file: %w", err)
		}
	}
	if len(authorities) > 0 {
		o.Clients = x509.NewCertPool()
		if !o.Clients.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("--client-ca-file: no PEM certificate is there")
		}
	}
	watched := loop.Join()
	if f.certFile != "" || f.keyFile != "" {
		pair, err := credentials.WatchFiles(f.certFile, f.keyFile, clients.Log)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert-file and --tls-private-key-file: %w", err)
		}
		o.Certificate, watched = func() (*tls.Certificate, error) { return pair.Get() }, pair
	}
	server, err := secure.Open(ctx, net.JoinHostPort(f.address, strconv.Itoa(f.port)), o)
	if err != nil {
		return nil, fmt.Errorf("--secure-port: %w", err)
	}
	return loop.Join(server, watched), nil
}

// kube returns the client for TokenReviews and SubjectAccessReviews.
func (f *secureFlags) kube(clients *loop.Clients) (kubernetes.Interface, error) {
	path := f.delegate
	if path == "" {
		path = f.authorize
	}
	if path == "" {
		return clients.Kube, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("--authentication-kubeconfig: %w", err)
	}
	return kubernetes.NewForConfig(config)
}
