// Package apiserver is `millrace apiserver`: the API server alone, with the flags of kube-apiserver; and the same
// program as a test suite starts it.
package apiserver

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
	"github.com/spf13/pflag"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/cmd/millrace/internal/serving"
	"github.com/millrace/millrace/internal/features"
	"github.com/millrace/millrace/internal/server/admission"
)

// RegistryPrefix is kube-apiserver's key prefix. No other prefix is supported.
const RegistryPrefix = "/registry"

// Flags are the flags of `millrace apiserver`, under kube-apiserver's names.
type Flags struct {
	serving.Flags
	version                 flags.Version
	BindAddress, CertDir    string
	Port                    int
	certFile, keyFile       string
	tls                     flags.TLS
	kubelets                kubeletClientFlags
	cluster                 clusterFlags
	serving                 servingFlags
	proxy                   millrace.ProxyOptions
	tokens                  accountTokenFlags
	backend, Prefix         string
	watchCache              bool
	cacheSizes              []string
	admission               millrace.AdmissionOptions
	authorization           []string
	MaxRequests, MaxChanges int
	fairness                bool
	RequestTimeout          time.Duration
	compactionInterval      time.Duration
	MinRequestTimeout       int
	gates                   flags.Gates
	all                     *pflag.FlagSet
}

func Command() *cobra.Command {
	f := &Flags{}
	c := &cobra.Command{
		Use:   "apiserver",
		Short: "Run the API server alone",
		Long: "Run the API server alone, with the flags of kube-apiserver. Without --etcd-servers it keeps the cluster in an\n" +
			"log in the data directory, where it also writes a kubeconfig for the other components.",
		Args: cobra.NoArgs,
		RunE: flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
			if f.version.Print(c.OutOrStdout()) {
				return nil
			}
			log, err := f.Log.Logger(os.Stderr)
			if err != nil {
				return err
			}
			o, err := f.Options(log)
			if err != nil {
				return err
			}
			f.warn(log)
			return f.Serve(ctx, c.OutOrStdout(), o, "--bind-address and --secure-port")
		}),
	}
	f.Register(c)
	return c
}

func (f *Flags) Register(c *cobra.Command) {
	f.Add(c)
	fl := c.Flags()
	f.all = fl
	flags.UnusedByServer.Add(fl)
	flags.RefusedByServer.Add(fl)
	f.gates.Add(fl)
	f.version.Add(fl)
	fl.StringVar(&f.BindAddress, "bind-address", "0.0.0.0", "address to listen on")
	fl.IntVar(&f.Port, "secure-port", 6443, "port to listen on; 0 takes a free one")
	fl.StringVar(&f.CertDir, "cert-dir", "", "directory of keys and certificates (default: pki in the data directory)")
	fl.StringVar(&f.certFile, "tls-cert-file", "", "serving certificate (default: one signed by the cluster's own CA)")
	fl.StringVar(&f.keyFile, "tls-private-key-file", "", "key of the serving certificate")
	f.tls.Add(fl)
	f.kubelets.add(fl)
	f.cluster.add(fl)
	f.serving.add(fl)
	fl.StringVar(&f.proxy.CertFile, "proxy-client-cert-file", "", "client certificate for the servers of aggregated API groups (default: one signed by the cluster's own authority of front proxies)")
	fl.StringVar(&f.proxy.KeyFile, "proxy-client-key-file", "", "key of that client certificate")
	f.tokens.add(fl)
	fl.StringVar(&f.backend, "storage-backend", "", `"etcd3", or "memory" to keep nothing`)
	fl.StringVar(&f.Prefix, "etcd-prefix", RegistryPrefix, "prefix of all keys in etcd; there is only this one")
	fl.BoolVar(&f.watchCache, "watch-cache", true, "serve reads and watches from memory; without it everything comes from the store")
	fl.StringSliceVar(&f.cacheSizes, "watch-cache-sizes", nil, "resource[.group]#size, with commas between; size 0 serves a resource from the store, others mean nothing")
	fl.StringSliceVar(&f.authorization, "authorization-mode", nil, "who decides what is allowed, in this order: ABAC, AlwaysAllow, AlwaysDeny, Node, RBAC, Webhook (default: Node,RBAC)")
	fl.StringSliceVar(&f.admission.Enable, "enable-admission-plugins", nil, "admission plugins to ask besides those that are on by default; their order does not matter")
	fl.StringSliceVar(&f.admission.Disable, "disable-admission-plugins", nil, "admission plugins not to ask though they are on by default")
	fl.StringVar(&f.admission.ConfigFile, "admission-control-config-file", "", "file that sets up admission plugins")
	fl.IntVar(&f.MaxRequests, "max-requests-inflight", 400, "how many reads are served at the same time")
	fl.IntVar(&f.MaxChanges, "max-mutating-requests-inflight", 200, "how many changes are served at the same time")
	fl.BoolVar(&f.fairness, "enable-priority-and-fairness", true, "divide --max-requests-inflight and --max-mutating-requests-inflight by the FlowSchemas of the cluster")
	fl.DurationVar(&f.compactionInterval, "etcd-compaction-interval", 5*time.Minute, "how long etcd keeps history; 0 never compacts")
	fl.DurationVar(&f.RequestTimeout, "request-timeout", time.Minute, "maximum duration of a request that is not long-running")
	fl.IntVar(&f.MinRequestTimeout, "min-request-timeout", 1800, "minimum number of seconds that a watch stays open")
}

// warn names the flags and the feature gates that have no effect.
func (f *Flags) warn(log *slog.Logger) {
	flags.UnusedByServer.Warn(f.all, "kube-apiserver", log)
	f.gates.Warn(log, features.Identity, features.FlagsPage, features.StatusPage)
}

func (f *Flags) Options(log *slog.Logger) (millrace.Options, error) {
	switch f.backend {
	case "", "etcd3":
	case "memory":
		f.Data = "memory"
	default:
		return millrace.Options{}, fmt.Errorf("--storage-backend %q is neither etcd3 nor memory", f.backend)
	}
	o, err := f.Flags.Options(net.JoinHostPort(f.BindAddress, strconv.Itoa(f.Port)), "--bind-address", log)
	if err != nil {
		return o, err
	}
	if err := f.check(); err != nil {
		return o, err
	}
	if err := flags.RefusedByServer.Check(f.all); err != nil {
		return o, err
	}
	o.Serving.FeatureGates = f.gates.Said
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
	o.Controllers, o.NoScheduler, o.Keys = []string{}, true, f.CertDir
	o.ControllersElsewhere = !slices.Contains(f.admission.Disable, "ServiceAccount")
	o.Admission = f.admission
	f.cluster.apply(&o)
	f.serving.apply(&o.Serving)
	o.Serving.CertFile, o.Serving.KeyFile = f.certFile, f.keyFile
	o.Serving.KubeletCAFile, o.Serving.Kubelets = f.kubelets.authorities, f.kubelets.options
	o.Serving.Proxy = f.proxy
	o.Serving.Tokens = f.tokens.options()
	if o.Serving.TLS, err = f.tls.Options(); err != nil {
		return o, err
	}
	f.servePairOf(&o)
	// With all certificates given, as kubeadm gives them, there is nothing to make and nobody else to trust.
	o.Serving.OnlyGiven = o.Serving.CertFile != "" && o.Serving.ClientCAFile != "" && o.Serving.Tokens.SigningKeyFile != "" && !f.WantsKubeconfig()
	o.Serving.MaxInFlight, o.Serving.MaxMutatingInFlight = f.MaxRequests, f.MaxChanges
	o.Serving.NoFairness = !f.fairness
	o.Serving.RequestTimeout, o.Serving.MinRequestTimeout = f.RequestTimeout, time.Duration(f.MinRequestTimeout)*time.Second
	return o, nil
}

// servePairOf supports a directory of keys with apiserver.crt and apiserver.key that another CA has signed, as test
// suites make it for kube-apiserver. They are served as they are, and our own keys are stored elsewhere.
func (f *Flags) servePairOf(o *millrace.Options) {
	if f.CertDir == "" || f.certFile != "" {
		return
	}
	cert, key := filepath.Join(f.CertDir, "apiserver.crt"), filepath.Join(f.CertDir, "apiserver.key")
	if exists(cert) && exists(key) && !exists(filepath.Join(f.CertDir, "ca.key")) {
		o.Serving.CertFile, o.Serving.KeyFile, o.Keys = cert, key, ""
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (f *Flags) check() error {
	switch {
	case net.ParseIP(f.BindAddress) == nil:
		return fmt.Errorf("--bind-address %q is not an IP address", f.BindAddress)
	case f.Port < 0 || f.Port > 65535:
		return fmt.Errorf("--secure-port %d is not a port", f.Port)
	case strings.TrimSuffix(f.Prefix, "/") != RegistryPrefix:
		return fmt.Errorf("--etcd-prefix %q is not supported: keys begin with %s", f.Prefix, RegistryPrefix)
	case (f.proxy.CertFile == "") != (f.proxy.KeyFile == ""):
		return fmt.Errorf("--proxy-client-cert-file and --proxy-client-key-file belong together: give both or neither")
	case (f.certFile == "") != (f.keyFile == ""):
		return fmt.Errorf("--tls-cert-file and --tls-private-key-file belong together: give both or neither")
	}
	for flag, n := range map[string]int{"max-requests-inflight": f.MaxRequests, "max-mutating-requests-inflight": f.MaxChanges, "min-request-timeout": f.MinRequestTimeout} {
		if n <= 0 {
			return fmt.Errorf("--%s %d is not more than 0", flag, n)
		}
	}
	if f.compactionInterval < 0 {
		return fmt.Errorf("--etcd-compaction-interval %v is less than 0", f.compactionInterval)
	}
	if f.RequestTimeout <= 0 {
		return fmt.Errorf("--request-timeout %v is not more than 0", f.RequestTimeout)
	}
	if err := f.AuthFlags.CheckModes(f.authorization); err != nil {
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
	return flags.Files(map[string]string{
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
