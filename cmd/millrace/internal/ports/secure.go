// Package ports has the ports for health, metrics and configuration of programs that use the API, with TLS and without,
// and their flags.
package ports

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/cmd/millrace/internal/secure"
	"github.com/millrace/millrace/internal/server/pki"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/queue/prommetrics"
)

// Secure configure the HTTPS port for health and metrics, under the names of kube-controller-manager and
// kube-scheduler.
type Secure struct {
	address, clientCA, certFile, keyFile string
	port                                 int
	tls                                  flags.TLS
	Profiling, Contention                bool
	access                               accessFlags
}

func (s *Secure) Add(c *cobra.Command, port int) {
	fl := c.Flags()
	fl.StringVar(&s.address, "bind-address", "0.0.0.0", "listen address for health, metrics and configuration")
	fl.IntVar(&s.port, "secure-port", port, "port for health, metrics and configuration; 0: none")
	fl.StringVar(&s.clientCA, "client-ca-file", "", "CA certificates of clients (default: those of the kubeconfig)")
	fl.StringVar(&s.certFile, "tls-cert-file", "", "serving certificate; it is reloaded when it changes (default: a self-signed one)")
	fl.StringVar(&s.keyFile, "tls-private-key-file", "", "key of the serving certificate")
	s.tls.Add(fl)
	fl.BoolVar(&s.Profiling, "profiling", true, "serve profiles of this process below /debug/pprof")
	fl.BoolVar(&s.Contention, "contention-profiling", false, "also profile what goroutines wait for, which costs each one that waits")
	s.access.add(fl)
}

// Check reports flags that do not fit together, and files that cannot be read.
func (s *Secure) Check() error {
	switch {
	case net.ParseIP(s.address) == nil:
		return fmt.Errorf("--bind-address %q is not an IP address", s.address)
	case s.port < 0 || s.port > 65535:
		return fmt.Errorf("--secure-port %d is not a port", s.port)
	case (s.certFile == "") != (s.keyFile == ""):
		return errors.New("--tls-cert-file and --tls-private-key-file belong together: give both or neither")
	}
	if _, err := s.tls.Options(); err != nil {
		return err
	}
	return flags.Files(map[string]string{
		"client-ca-file": s.clientCA, "tls-cert-file": s.certFile, "tls-private-key-file": s.keyFile, "requestheader-client-ca-file": s.access.proxies,
		"authentication-kubeconfig": s.access.authenticate, "authorization-kubeconfig": s.access.authorize,
	})
}

// Telling has what is served on the HTTPS port.
type Telling struct {
	Metrics *prometheus.Registry
	config  func() map[string]any
	checks  []secure.Check
	More    map[string]http.Handler // by path
}

// NewTelling adds metrics to those of a process, including those of the clients' queues.
func NewTelling(metrics *prometheus.Registry, clients *loop.Clients, config func() map[string]any) (*Telling, error) {
	t := &Telling{Metrics: metrics, config: config}
	t.Metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo())
	var err error
	if clients.Metrics, err = prommetrics.New(t.Metrics); err != nil {
		return nil, err
	}
	t.checks = []secure.Check{{Name: "informer-sync", Ready: true, Do: func(r *http.Request) error {
		now, cancel := context.WithCancel(r.Context())
		cancel()
		return clients.Informers.Synced(now)
	}}}
	return t, nil
}

// Serve opens the port. The returned runner serves it and reloads the certificates.
func (s *Secure) Serve(ctx context.Context, clients *loop.Clients, authorities []byte, t *Telling) (loop.Runner, error) {
	if s.Profiling && s.Contention {
		runtime.SetBlockProfileRate(1)
	}
	if s.port == 0 {
		return loop.Join(), nil
	}
	o := secure.Options{Checks: t.checks, Metrics: t.Metrics, Configuration: t.config, More: t.More, Logger: clients.Log, Profiling: s.Profiling}
	if s.clientCA != "" {
		var err error
		if authorities, err = os.ReadFile(s.clientCA); err != nil {
			return nil, fmt.Errorf("--client-ca-file: %w", err)
		}
	}
	hints := x509.NewCertPool() // clients choose their certificate by it
	if len(authorities) > 0 {
		o.Clients = x509.NewCertPool()
		if !o.Clients.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("--client-ca-file: no PEM certificate is there")
		}
		hints.AppendCertsFromPEM(authorities)
	}
	if err := s.access.apply(&o, clients, hints); err != nil {
		return nil, err
	}
	watched, err := s.configureTLS(&o, clients.Log, hints)
	if err != nil {
		return nil, err
	}
	server, err := secure.Open(ctx, net.JoinHostPort(s.address, strconv.Itoa(s.port)), o)
	if err != nil {
		return nil, fmt.Errorf("--secure-port: %w", err)
	}
	return loop.Join(append(watched, server)...), nil
}

// configureTLS sets the TLS of the port. The returned runners reload the certificates.
func (s *Secure) configureTLS(o *secure.Options, log *slog.Logger, hints *x509.CertPool) ([]loop.Runner, error) {
	shape, err := s.tls.Options()
	if err != nil {
		return nil, err
	}
	server := pki.ServerOptions{
		Clients: func() *x509.CertPool { return hints }, MinVersion: shape.MinVersion, Suites: shape.CipherSuites, Curves: shape.Curves,
	}
	var watched []loop.Runner
	watch := func(flags, cert, key string) (func() *tls.Certificate, error) {
		pair, err := pki.WatchPair(log, cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flags, err)
		}
		watched = append(watched, loop.Func(func(ctx context.Context) error {
			_ = pair.Run(ctx) // it ends with ctx, and returns that
			return nil
		}))
		return pair.Get, nil
	}
	if s.certFile != "" {
		if server.Serving, err = watch("--tls-cert-file and --tls-private-key-file", s.certFile, s.keyFile); err != nil {
			return nil, err
		}
	} else {
		made, err := secure.SelfSigned(s.address)
		if err != nil {
			return nil, err
		}
		server.Serving = func() *tls.Certificate { return made }
	}
	for _, n := range shape.Named {
		serving, err := watch("--tls-sni-cert-key", n.CertFile, n.KeyFile)
		if err != nil {
			return nil, err
		}
		server.Named = append(server.Named, pki.NamedCertificate{Names: n.Names, Serving: serving})
	}
	o.TLS = pki.ServerTLS(server)
	return watched, nil
}
