package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"k8s.io/kube-proxy/config/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/cmd/millrace/internal/client"
	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/cmd/millrace/internal/memory"
	"github.com/millrace/millrace/cmd/millrace/internal/ports"
	"github.com/millrace/millrace/internal/network/services"
	"github.com/millrace/millrace/internal/network/services/config"
	"github.com/millrace/millrace/loop"
)

// proxyFlags are the flags of `millrace proxy`, under kube-proxy's names.
type proxyFlags struct {
	client.Flags
	version                                   flags.Version
	gates                                     flags.Gates
	initOnly                                  bool
	path, writeTo                             string
	cleanup                                   bool
	name, mode, clusterCIDR, health, metrics  string
	detectLocal                               string
	masqueradeAll, liberal                    bool
	nodePorts                                 []string
	maxPerCore, minimum, oomScoreAdj          int32
	established, closeWait, udp, udpConfirmed time.Duration
}

func ProxyCommand() *cobra.Command {
	f := &proxyFlags{}
	c := &cobra.Command{
		Use:   "proxy",
		Short: "Run the service proxy on this machine",
		Long: "Make services reachable on this machine with the kernel's nf_tables, with the flags and the configuration file of kube-proxy, against\n" +
			"any Kubernetes API server. Needs root. The tables stay when the command ends, so that a restart interrupts nothing; --cleanup removes them.",
		Args: cobra.NoArgs,
		RunE: flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error { return f.run(ctx, c) }),
	}
	f.Add(c)
	standard := config.Default()
	fl := c.Flags()
	f.Pace.Add(fl)
	f.version.Add(fl)
	f.gates.Add(fl)
	flags.UnusedByProxy.Add(fl)
	fl.BoolVar(&f.initOnly, "init-only", false, "set up connection tracking, which needs more privileges than the rest, and exit")
	fl.StringVar(&f.path, "config", "", "file with a KubeProxyConfiguration; flags override it")
	fl.StringVar(&f.writeTo, "write-config-to", "", "write the configuration with all defaults to this file, and exit")
	fl.BoolVar(&f.cleanup, "cleanup", false, "remove all tables and exit")
	fl.StringVar(&f.name, "hostname-override", "", "name of the node (default: this machine's)")
	fl.StringVar(&f.mode, "proxy-mode", string(standard.Mode), "only nftables is supported")
	fl.StringVar(&f.clusterCIDR, "cluster-cidr", "", "pod ranges of the cluster, one for each IP family, separated by a comma; traffic to services from other sources is masqueraded")
	fl.StringVar(&f.detectLocal, "detect-local-mode", string(standard.DetectLocalMode), "how traffic of pods is recognized; only ClusterCIDR is supported")
	fl.BoolVar(&f.masqueradeAll, "masquerade-all", false, "masquerade all traffic to cluster IPs")
	fl.StringSliceVar(&f.nodePorts, "nodeport-addresses", standard.NodePortAddresses,
		`ranges of the node's addresses on which node ports are open; "primary" means its first address of each IP family`)
	fl.StringVar(&f.health, "healthz-bind-address", standard.HealthzBindAddress, "address and port of /healthz and /livez; empty: none")
	fl.StringVar(&f.metrics, "metrics-bind-address", standard.MetricsBindAddress, "address and port of /metrics, /proxyMode and /configz; empty: none")
	fl.Int32Var(&f.oomScoreAdj, "oom-score-adj", *standard.OOMScoreAdj, "oom_score_adj of this process, from -1000 to 1000")
	fl.Int32Var(&f.maxPerCore, "conntrack-max-per-core", *standard.Conntrack.MaxPerCore,
		"how many connections are tracked at least for each processor; 0 leaves the limit as it is. A higher limit is not lowered")
	fl.Int32Var(&f.minimum, "conntrack-min", *standard.Conntrack.Min, "how many connections are tracked at least, unless --conntrack-max-per-core is 0")
	fl.DurationVar(&f.established, "conntrack-tcp-timeout-established", standard.Conntrack.TCPEstablishedTimeout.Duration, "how long idle TCP connections are tracked; 0 leaves it as it is")
	fl.DurationVar(&f.closeWait, "conntrack-tcp-timeout-close-wait", standard.Conntrack.TCPCloseWaitTimeout.Duration, "how long TCP connections are tracked that one side has closed")
	fl.BoolVar(&f.liberal, "conntrack-tcp-be-liberal", false, "track TCP packets outside of the window, too")
	fl.DurationVar(&f.udp, "conntrack-udp-timeout", 0, "how long UDP flows without a reply are tracked; 0 leaves it as it is")
	fl.DurationVar(&f.udpConfirmed, "conntrack-udp-timeout-stream", 0, "how long UDP flows with replies are tracked; 0 leaves it as it is")
	return c
}

func (f *proxyFlags) run(ctx context.Context, c *cobra.Command) error {
	if f.version.Print(c.OutOrStdout()) {
		return nil
	}
	if f.cleanup {
		return services.Remove()
	}
	file, err := f.configuration(c)
	if err != nil {
		return err
	}
	if f.writeTo != "" {
		text, err := yaml.Marshal(file)
		if err != nil {
			return fmt.Errorf("--write-config-to: %w", err)
		}
		return os.WriteFile(f.writeTo, text, 0o600)
	}
	o, err := serviceOptions(file)
	if err != nil {
		return err
	}
	log, err := f.Log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	flags.UnusedByProxy.Warn(c.Flags(), "kube-proxy", log)
	f.gates.Warn(log)
	if f.initOnly {
		adjustMachine(ctx, file, log)
		return nil
	}
	f.Kubeconfig = cmp.Or(f.Kubeconfig, file.ClientConnection.Kubeconfig)
	clients, _, err := f.Clients(c.OutOrStdout())
	if err != nil {
		return err
	}
	ignored, err := config.Ignored(file)
	if err != nil {
		return err
	}
	if len(ignored) > 0 {
		clients.Log.WarnContext(ctx, "fields of the configuration have no effect", "fields", ignored)
	}
	return runProxy(ctx, f.Registry, clients, file, o)
}

// runProxy runs the proxy, and serves its health and metrics.
func runProxy(ctx context.Context, registry *prometheus.Registry, clients *loop.Clients, file *config.File, o services.Options) error {
	told, err := ports.NewTelling(registry, clients, nil)
	if err != nil {
		return err
	}
	if o.Metrics, err = services.NewMetrics(told.Metrics); err != nil {
		return err
	}
	o.Clients, o.Logger = clients.As("kube-proxy"), clients.Log
	proxy, err := services.New(o)
	if err != nil {
		return err
	}
	tells, err := serveProxy(ctx, proxy, file, told.Metrics)
	if err != nil {
		return err
	}
	adjustMachine(ctx, file, clients.Log)
	return loop.Run(ctx, clients, proxy, tells, loop.Func(memory.Tidy))
}

// configuration returns the file, or the defaults without one, with the flags that were given.
func (f *proxyFlags) configuration(c *cobra.Command) (*config.File, error) {
	file := config.Default()
	if f.path != "" {
		var err error
		if file, err = config.Load(f.path); err != nil {
			return nil, fmt.Errorf("--config: %w", err)
		}
	}
	for name, set := range map[string]func(){
		"hostname-override":                 func() { file.HostnameOverride = f.name },
		"proxy-mode":                        func() { file.Mode = v1alpha1.ProxyMode(f.mode) },
		"cluster-cidr":                      func() { file.ClusterCIDR = f.clusterCIDR },
		"detect-local-mode":                 func() { file.DetectLocalMode = v1alpha1.LocalMode(f.detectLocal) },
		"masquerade-all":                    func() { file.NFTables.MasqueradeAll = f.masqueradeAll },
		"nodeport-addresses":                func() { file.NodePortAddresses = f.nodePorts },
		"healthz-bind-address":              func() { file.HealthzBindAddress = f.health },
		"metrics-bind-address":              func() { file.MetricsBindAddress = f.metrics },
		"oom-score-adj":                     func() { file.OOMScoreAdj = &f.oomScoreAdj },
		"conntrack-max-per-core":            func() { file.Conntrack.MaxPerCore = &f.maxPerCore },
		"conntrack-min":                     func() { file.Conntrack.Min = &f.minimum },
		"conntrack-tcp-timeout-established": func() { file.Conntrack.TCPEstablishedTimeout.Duration = f.established },
		"conntrack-tcp-timeout-close-wait":  func() { file.Conntrack.TCPCloseWaitTimeout.Duration = f.closeWait },
		"conntrack-tcp-be-liberal":          func() { file.Conntrack.TCPBeLiberal = f.liberal },
		"conntrack-udp-timeout":             func() { file.Conntrack.UDPTimeout.Duration = f.udp },
		"conntrack-udp-timeout-stream":      func() { file.Conntrack.UDPStreamTimeout.Duration = f.udpConfirmed },
		"kubeconfig":                        func() { file.ClientConnection.Kubeconfig = f.Kubeconfig },
	} {
		if c.Flags().Changed(name) {
			set()
		}
	}
	f.takeLogging(c, file)
	return file, config.Check(file)
}

// takeLogging sets the logging flags that were not given from the file.
func (f *proxyFlags) takeLogging(c *cobra.Command, file *config.File) {
	if !c.Flags().Changed("v") {
		f.Log.Verbosity = int(file.Logging.Verbosity)
	}
	if !c.Flags().Changed("logging-format") {
		f.Log.Format = cmp.Or(file.Logging.Format, f.Log.Format)
	}
}

// serviceOptions returns the options of the proxy.
func serviceOptions(file *config.File) (services.Options, error) {
	o := services.Options{Node: strings.ToLower(strings.TrimSpace(file.HostnameOverride)), MasqueradeAll: file.NFTables.MasqueradeAll}
	if os.Getuid() != 0 {
		return o, errors.New("services need the kernel's nf_tables, and that needs root")
	}
	if o.Node == "" {
		name, err := os.Hostname()
		if err != nil {
			return o, err
		}
		o.Node = strings.ToLower(name)
	}
	var err error
	if o.ClusterCIDRs, err = flags.Prefixes("cluster-cidr", file.ClusterCIDR); err != nil {
		return o, err
	}
	if len(file.NodePortAddresses) == 1 && file.NodePortAddresses[0] == config.Primary {
		return o, nil
	}
	o.NodePortAddresses, err = flags.Prefixes("nodeport-addresses", strings.Join(file.NodePortAddresses, ","))
	return o, err
}

// adjustMachine sets what the kernel's connection tracking and its choice of processes to kill need. A failure is
// logged, because services work without it.
func adjustMachine(ctx context.Context, file *config.File, log *slog.Logger) {
	score := strconv.Itoa(int(*file.OOMScoreAdj))
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(score), 0o644); err != nil {
		log.InfoContext(ctx, "oom_score_adj could not be set", "to", score, "err", err)
	}
	c := file.Conntrack
	err := services.Conntrack{
		MaxPerCore: int(*c.MaxPerCore), Min: int(*c.Min), Liberal: c.TCPBeLiberal,
		Established: c.TCPEstablishedTimeout.Duration, CloseWait: c.TCPCloseWaitTimeout.Duration, Unreplied: c.UDPTimeout.Duration, Assured: c.UDPStreamTimeout.Duration,
	}.Apply()
	if err != nil {
		log.WarnContext(ctx, "connection tracking could not be set", "err", err)
	}
}
