package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/server/admission"
)

// registryPrefix is kube-apiserver's key prefix. No other prefix is supported.
const registryPrefix = "/registry"

// apiserverFlags are the flags of `millrace apiserver`, under kube-apiserver's names.
type apiserverFlags struct {
	serverFlags
	version                 versionFlag
	bindAddress, certDir    string
	port                    int
	certFile, keyFile       string
	tls                     tlsFlags
	kubelets                kubeletClientFlags
	cluster                 clusterFlags
	serving                 servingFlags
	proxy                   millrace.ProxyOptions
	tokens                  accountTokenFlags
	backend, prefix         string
	watchCache              bool
	cacheSizes              []string
	admission               millrace.AdmissionOptions
	authorization           []string
	maxRequests, maxChanges int
	fairness                bool
	requestTimeout          time.Duration
	compactionInterval      time.Duration
	minRequestTimeout       int
}

func apiserverCommand() *cobra.Command {
	f := &apiserverFlags{}
	c := &cobra.Command{
		Use:   "apiserver",
		Short: "Run the API server alone",
		Long: "Run the API server alone, with the flags of kube-apiserver. Without --etcd-servers it keeps the cluster in an\n" +
			"embedded etcd in the data directory, where it also writes a kubeconfig for the other components.",
		Args: cobra.NoArgs,
		RunE: untilSignal(func(ctx context.Context, c *cobra.Command) error {
			if f.version.print(c.OutOrStdout()) {
				return nil
			}
			log, err := f.log.logger(os.Stderr)
			if err != nil {
				return err
			}
			o, err := f.options(log)
			if err != nil {
				return err
			}
			unusedOfServer.warn(c.Flags(), "kube-apiserver", log)
			return f.serve(ctx, c.OutOrStdout(), o, "--bind-address and --secure-port")
		}),
	}
	f.register(c)
	return c
}

func (f *apiserverFlags) register(c *cobra.Command) {
	f.add(c)
	fl := c.Flags()
	unusedOfServer.add(fl)
	f.version.add(fl)
	fl.StringVar(&f.bindAddress, "bind-address", "0.0.0.0", "address to listen on")
	fl.IntVar(&f.port, "secure-port", 6443, "port to listen on; 0 takes a free one")
	fl.StringVar(&f.certDir, "cert-dir", "", "directory of keys and certificates (default: pki in the data directory)")
	fl.StringVar(&f.certFile, "tls-cert-file", "", "serving certificate (default: one signed by the cluster's own CA)")
	fl.StringVar(&f.keyFile, "tls-private-key-file", "", "key of the serving certificate")
	f.tls.add(fl)
	f.kubelets.add(fl)
	f.cluster.add(fl)
	f.serving.add(fl)
	fl.StringVar(&f.proxy.CertFile, "proxy-client-cert-file", "", "client certificate for the servers of aggregated API groups (default: one signed by the cluster's own authority of front proxies)")
	fl.StringVar(&f.proxy.KeyFile, "proxy-client-key-file", "", "key of that client certificate")
	f.tokens.add(fl)
	fl.StringVar(&f.backend, "storage-backend", "", `"etcd3", or "memory" to keep nothing`)
	fl.StringVar(&f.prefix, "etcd-prefix", registryPrefix, "prefix of all keys in etcd; there is only this one")
	fl.BoolVar(&f.watchCache, "watch-cache", true, "serve reads and watches from memory; without it everything comes from the store")
	fl.StringSliceVar(&f.cacheSizes, "watch-cache-sizes", nil, "resource[.group]#size, with commas between; size 0 serves a resource from the store, others mean nothing")
	fl.StringSliceVar(&f.authorization, "authorization-mode", nil, "who decides what is allowed, in this order: ABAC, AlwaysAllow, AlwaysDeny, Node, RBAC, Webhook (default: Node,RBAC)")
	fl.StringSliceVar(&f.admission.Enable, "enable-admission-plugins", nil, "admission plugins to ask besides those that are on by default; their order does not matter")
	fl.StringSliceVar(&f.admission.Disable, "disable-admission-plugins", nil, "admission plugins not to ask though they are on by default")
	fl.StringVar(&f.admission.ConfigFile, "admission-control-config-file", "", "file that sets up admission plugins")
	fl.IntVar(&f.maxRequests, "max-requests-inflight", 400, "how many reads are served at the same time")
	fl.IntVar(&f.maxChanges, "max-mutating-requests-inflight", 200, "how many changes are served at the same time")
	fl.BoolVar(&f.fairness, "enable-priority-and-fairness", true, "divide --max-requests-inflight and --max-mutating-requests-inflight by the FlowSchemas of the cluster")
	fl.DurationVar(&f.compactionInterval, "etcd-compaction-interval", 5*time.Minute, "how long etcd keeps history; 0 never compacts")
	fl.DurationVar(&f.requestTimeout, "request-timeout", time.Minute, "maximum duration of a request that is not long-running")
	fl.IntVar(&f.minRequestTimeout, "min-request-timeout", 1800, "minimum number of seconds that a watch stays open")
}

func (f *apiserverFlags) options(log *slog.Logger) (millrace.Options, error) {
	switch f.backend {
	case "", "etcd3":
	case "memory":
		f.data = "memory"
	default:
		return millrace.Options{}, fmt.Errorf("--storage-backend %q is neither etcd3 nor memory", f.backend)
	}
	o, err := f.serverFlags.options(net.JoinHostPort(f.bindAddress, strconv.Itoa(f.port)), "--bind-address", log)
	if err != nil {
		return o, err
	}
	if err := f.check(); err != nil {
		return o, err
	}
	if o.Uncached, err = uncached(f.cacheSizes); err != nil {
		return o, err
	}
	if !f.watchCache {
		o.Uncached = []string{"*"}
	}
	o.CompactEvery = f.compactionInterval
	if f.compactionInterval == 0 {
		o.CompactEvery = -1
	}
	o.Authorization = f.authorization
	o.Controllers, o.NoScheduler, o.Keys = []string{}, true, f.certDir
	o.ControllersElsewhere = !slices.Contains(f.admission.Disable, "ServiceAccount")
	o.Admission = f.admission
	f.cluster.apply(&o)
	f.serving.apply(&o.Serving)
	o.Serving.CertFile, o.Serving.KeyFile = f.certFile, f.keyFile
	o.Serving.KubeletCAFile, o.Serving.Kubelets = f.kubelets.authorities, f.kubelets.options
	o.Serving.Proxy = f.proxy
	o.Serving.Tokens = f.tokens.options()
	if o.Serving.TLS, err = f.tls.options(); err != nil {
		return o, err
	}
	f.servePairOf(&o)
	o.Serving.MaxInFlight, o.Serving.MaxMutatingInFlight = f.maxRequests, f.maxChanges
	o.Serving.NoFairness = !f.fairness
	o.Serving.RequestTimeout, o.Serving.MinRequestTimeout = f.requestTimeout, time.Duration(f.minRequestTimeout)*time.Second
	return o, nil
}

// servePairOf supports a directory of keys with apiserver.crt and apiserver.key that another CA has signed, as test suites make it
// for kube-apiserver. They are served as they are, and our own keys are stored elsewhere.
func (f *apiserverFlags) servePairOf(o *millrace.Options) {
	if f.certDir == "" || f.certFile != "" {
		return
	}
	cert, key := filepath.Join(f.certDir, "apiserver.crt"), filepath.Join(f.certDir, "apiserver.key")
	if exists(cert) && exists(key) && !exists(filepath.Join(f.certDir, "ca.key")) {
		o.Serving.CertFile, o.Serving.KeyFile, o.Keys = cert, key, ""
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (f *apiserverFlags) check() error {
	switch {
	case net.ParseIP(f.bindAddress) == nil:
		return fmt.Errorf("--bind-address %q is not an IP address", f.bindAddress)
	case f.port < 0 || f.port > 65535:
		return fmt.Errorf("--secure-port %d is not a port", f.port)
	case strings.TrimSuffix(f.prefix, "/") != registryPrefix:
		return fmt.Errorf("--etcd-prefix %q is not supported: keys begin with %s", f.prefix, registryPrefix)
	case (f.proxy.CertFile == "") != (f.proxy.KeyFile == ""):
		return fmt.Errorf("--proxy-client-cert-file and --proxy-client-key-file belong together: give both or neither")
	case (f.certFile == "") != (f.keyFile == ""):
		return fmt.Errorf("--tls-cert-file and --tls-private-key-file belong together: give both or neither")
	}
	for flag, n := range map[string]int{"max-requests-inflight": f.maxRequests, "max-mutating-requests-inflight": f.maxChanges, "min-request-timeout": f.minRequestTimeout} {
		if n <= 0 {
			return fmt.Errorf("--%s %d is not more than 0", flag, n)
		}
	}
	if f.compactionInterval < 0 {
		return fmt.Errorf("--etcd-compaction-interval %v is less than 0", f.compactionInterval)
	}
	if f.requestTimeout <= 0 {
		return fmt.Errorf("--request-timeout %v is not more than 0", f.requestTimeout)
	}
	if err := f.authFlags.checkModes(f.authorization); err != nil {
		return err
	}
	if err := admission.CheckNames(f.admission.Enable, f.admission.Disable); err != nil {
		return err
	}
	for _, part := range []interface{ check() error }{&f.tokens, &f.kubelets, &f.cluster, &f.serving} {
		if err := part.check(); err != nil {
			return err
		}
	}
	return files(map[string]string{
		"proxy-client-cert-file": f.proxy.CertFile, "proxy-client-key-file": f.proxy.KeyFile,
		"tls-cert-file": f.certFile, "tls-private-key-file": f.keyFile, "admission-control-config-file": f.admission.ConfigFile,
	})
}

// uncached returns the resources of --watch-cache-sizes with size 0.
func uncached(sizes []string) ([]string, error) {
	var out []string
	for _, word := range sizes {
		name, text, ok := strings.Cut(word, "#")
		size, err := strconv.Atoi(text)
		if !ok || name == "" || err != nil || size < 0 {
			return nil, fmt.Errorf("--watch-cache-sizes: %q is not resource[.group]#size", word)
		}
		if size == 0 {
			out = append(out, name)
		}
	}
	return out, nil
}
