// Package kubelet is `millrace kubelet`: this machine as a node, hollow nodes, or a kubelet without a cluster, with the
// flags and the file of the kubelet.
package kubelet

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace/millrace/cmd/millrace/internal/client"
	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/cmd/millrace/internal/memory"
	"github.com/millrace/millrace/internal/kubelet"
	"github.com/millrace/millrace/internal/kubelet/credentials"
	"github.com/millrace/millrace/internal/kubelet/hollow"
	"github.com/millrace/millrace/internal/kubelet/logs"
	"github.com/millrace/millrace/internal/kubelet/server"
	"github.com/millrace/millrace/internal/kubelet/worker"
	"github.com/millrace/millrace/loop"
)

// Flags are the flags of `millrace kubelet`, under the kubelet's names.
type Flags struct {
	client.Flags
	version                     flags.Version
	gates                       flags.Gates
	file, dropIns               string
	runtime, name, root         string
	manifests, manifestURL      string
	manifestHeaders             headers
	fileEvery, urlEvery         time.Duration
	address, nodeIP             string
	port, nodes                 int
	healthAddress               string
	healthPort                  int
	clientCA, certFile, keyFile string
	tls                         flags.TLS
	labels                      map[string]string
	taints, dns, unsafeSysctls  []string
	domain, providerID          string
	register, serialPulls       bool
	pulls                       int
	statusEvery                 time.Duration
	logSize                     string
	logFiles, maxPods           int
	imageHigh, imageLow         int
	imageRest                   time.Duration
	eviction                    evictionFlags
	limits                      limitFlags
	policy                      policyFlags
	reserved, kubeReserved      map[string]string
	cgroupRoot                  string
	resolver                    string
	podsPerCore, statusImages   int
	seccompDefault, cpuQuota    bool
	debugging                   bool
	joining                     joinFlags
	// inFile is what only the file can say.
	inFile inFile
}

func Command() *cobra.Command {
	f := &Flags{}
	c := &cobra.Command{
		Use:   "kubelet",
		Short: "Make this machine a node, or run hollow nodes",
		Long: "Make this machine a node, with the flags of the kubelet. This needs a container runtime (CRI) and root.\n" +
			"With --nodes it runs hollow nodes instead, whose containers are fake. Without a kubeconfig it runs standalone,\n" +
			"with the pods of --pod-manifest-path.\n" + flags.Missing(runtime.GOOS),
		Args: cobra.NoArgs,
		RunE: flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
			if f.version.Print(c.OutOrStdout()) {
				return nil
			}
			return f.run(ctx, c)
		}),
	}
	f.RegisterAll(c)
	return c
}

// Program is the kubelet under its own name. Its files are where those of Kubernetes' kubelet are: drivers of storage and
// devices expect them there.
func Program() *cobra.Command {
	c := Command()
	root := c.Flags().Lookup("root-dir")
	root.DefValue = "/var/lib/kubelet"
	_ = root.Value.Set(root.DefValue) // any text is a directory
	return c
}

func (f *Flags) RegisterAll(c *cobra.Command) {
	f.Add(c)
	fl := c.Flags()
	f.Pace.Add(fl)
	f.joining.add(c)
	f.version.Add(fl)
	f.tls.AddBasic(fl)
	f.gates.Add(fl)
	flags.UnusedByKubelet.Add(fl)
	f.addNode(fl)
	f.addSources(fl)
	f.eviction.add(fl)
	f.limits.add(fl)
	f.policy.add(fl)
	fl.StringVar(&f.file, "config", "", "file with a KubeletConfiguration; flags override it")
	fl.StringVar(&f.dropIns, "config-dir", "", "directory of files *.conf, which change what --config says, in the order of their names")
	fl.StringVar(&f.runtime, "container-runtime-endpoint", "unix:///run/containerd/containerd.sock", "socket of the container runtime")
	fl.StringVar(&f.name, "hostname-override", "", "name of the node (default: the host name); with --nodes the prefix of the nodes' names (default: hollow)")
	fl.StringVar(&f.root, "root-dir", "/var/lib/millrace/kubelet", "directory for volumes and other files")
	fl.StringVar(&f.address, "address", "0.0.0.0", "listen address of the kubelet's server")
	fl.IntVar(&f.port, "port", 10250, "port of the kubelet's server; hollow nodes use a free one")
	fl.StringVar(&f.healthAddress, "healthz-bind-address", "127.0.0.1", "listen address of /healthz, without TLS")
	fl.IntVar(&f.healthPort, "healthz-port", 10248, "port of /healthz; 0: none. Hollow nodes have none")
	fl.StringVar(&f.clientCA, "client-ca-file", "", "CA certificates of clients, which is the API server (default: those of the kubeconfig)")
	fl.StringVar(&f.certFile, "tls-cert-file", "", "serving certificate (default: a self-signed one)")
	fl.StringVar(&f.keyFile, "tls-private-key-file", "", "key of the serving certificate")
	fl.StringSliceVar(&f.unsafeSysctls, "allowed-unsafe-sysctls", nil, "sysctls that pods may set besides the safe ones: names, or their beginnings with a star")
	fl.StringSliceVar(&f.dns, "cluster-dns", nil, "DNS servers of pods")
	fl.StringVar(&f.domain, "cluster-domain", "cluster.local", "DNS domain of the cluster")
	fl.StringVar(&f.logSize, "container-log-max-size", "10Mi", "maximum size of a container's log file before it is rotated")
	fl.IntVar(&f.logFiles, "container-log-max-files", 5, "maximum number of log files of a container")
	fl.IntVar(&f.maxPods, "max-pods", 110, "maximum number of pods")
	fl.IntVar(&f.imageHigh, "image-gc-high-threshold", 85, "disk usage, in percent, from which unused images are removed")
	fl.IntVar(&f.imageLow, "image-gc-low-threshold", 80, "disk usage, in percent, at which removing images stops")
	fl.DurationVar(&f.imageRest, "minimum-image-ttl-duration", 2*time.Minute, "minimum time that an unused image is kept")
	fl.StringToStringVar(&f.reserved, "system-reserved", nil, "resources reserved for the system: cpu=200m,memory=1Gi")
	fl.StringVar(&f.cgroupRoot, "cgroup-root", "", "parent cgroup of all pods (default: the runtime decides)")
	fl.BoolVar(&f.seccompDefault, "seccomp-default", false, "give containers that name no seccomp profile the runtime's")
	fl.BoolVar(&f.cpuQuota, "cpu-cfs-quota", true, "enforce limits of CPU time")
	fl.BoolVar(&f.debugging, "enable-debugging-handlers", true, "serve logs, commands and ports of pods")
	fl.StringVar(&f.resolver, "resolv-conf", "", "file that configures the resolver of pods that use the node's (default: the machine's)")
	fl.IntVar(&f.podsPerCore, "pods-per-core", 0, "maximum number of pods for each processor; 0: as many as --max-pods says")
	fl.IntVar(&f.statusImages, "node-status-max-images", 50, "number of images in the node's status; -1: all")
	fl.BoolVar(&f.serialPulls, "serialize-image-pulls", false, "pull one image at a time")
	fl.IntVar(&f.nodes, "nodes", 0, "run this number of hollow nodes instead of a real one")
}

// addNode adds the flags for the Node object.
func (f *Flags) addNode(fl *pflag.FlagSet) {
	fl.StringVar(&f.nodeIP, "node-ip", "", "addresses of the node, separated by commas (default: the machine's first address)")
	fl.StringToStringVar(&f.labels, "node-labels", nil, "labels of the node: key=value, separated by commas")
	fl.StringSliceVar(&f.taints, "register-with-taints", nil, "taints of the node: key=value:effect, separated by commas")
	fl.BoolVar(&f.register, "register-node", true, "make the Node object; without it the kubelet waits until somebody else has made it")
	fl.StringVar(&f.providerID, "provider-id", "", "name of the node at the cloud provider")
	fl.DurationVar(&f.statusEvery, "node-status-update-frequency", 0, "how often the node's status is written even if nothing has changed (default 5m0s)")
	fl.StringToStringVar(&f.kubeReserved, "kube-reserved", nil, "resources reserved for Kubernetes: cpu=200m,memory=1Gi; --system-reserved is added")
}

// addSources adds the flags for static pods.
func (f *Flags) addSources(fl *pflag.FlagSet) {
	fl.StringVar(&f.manifests, "pod-manifest-path", "", "file or directory with manifests of static pods")
	fl.StringVar(&f.manifestURL, "manifest-url", "", "URL with a manifest of static pods")
	fl.Var(&f.manifestHeaders, "manifest-url-header", "headers of requests to --manifest-url: name:value, separated by commas; may be repeated")
	fl.DurationVar(&f.fileEvery, "file-check-frequency", 20*time.Second, "how often --pod-manifest-path is read")
	fl.DurationVar(&f.urlEvery, "http-check-frequency", 20*time.Second, "how often --manifest-url is read")
}

// prefix returns the prefix of hollow nodes' names. Several processes need different prefixes.
func (f *Flags) prefix() string {
	if f.name == "" {
		return ""
	}
	return f.name + "-"
}

func (f *Flags) run(ctx context.Context, c *cobra.Command) error {
	if err := f.read(c.Flags()); err != nil {
		return err
	}
	taints, err := parseTaints(f.taints)
	if err != nil {
		return err
	}
	if f.nodes < 0 {
		return fmt.Errorf("--nodes %d is less than none", f.nodes)
	}
	if f.nodes == 0 {
		if err := flags.RealNodes(runtime.GOOS); err != nil {
			return err
		}
	}
	for flag, port := range map[string]int{"port": f.port, "healthz-port": f.healthPort} {
		if port < 0 || port > 65535 {
			return fmt.Errorf("--%s %d is not a port", flag, port)
		}
	}
	if f.nodes == 0 && f.Kubeconfig == "" && f.joining.bootstrap+f.joining.token == "" && f.manifests+f.manifestURL != "" {
		return f.alone(ctx, c.Flags())
	}
	if f.nodes > 0 {
		f.Adapt = impersonateHollowNodes
	}
	clients, config, identity, err := f.join(ctx, c.OutOrStdout())
	if err != nil {
		return err
	}
	if err := f.warn(c.Flags(), clients.Log); err != nil {
		return err
	}
	access, certificates, err := f.access(config.CAData, clients)
	if err != nil {
		return err
	}
	var node loop.Runner
	if f.nodes > 0 {
		access.Listen = ""
		o := hollow.Options{Clients: clients, Nodes: f.nodes, NamePrefix: f.prefix(), Server: access, Labels: f.labels, Taints: taints, Logger: clients.Log}
		if o.As, err = hollowIdentity(ctx, clients.Kube, clients.Log); err != nil {
			return err
		}
		node, err = hollow.New(o)
	} else {
		var o kubelet.Options
		if o, err = f.options(); err != nil {
			return err
		}
		o.Clients, o.Server, o.Taints, o.Logger = clients.As("kubelet"), access, taints, clients.Log
		clients.Events.Limit(f.limits.events, f.limits.eventBurst)
		f.limits.protect(clients.Log)
		node, err = kubelet.New(o)
	}
	if err != nil {
		return err
	}
	health, err := f.serveHealth(ctx, clients)
	if err != nil {
		return err
	}
	return loop.Run(ctx, clients, node, identity, certificates, health, loop.Func(memory.Tidy))
}

// serveHealth serves /healthz of a real node without TLS.
func (f *Flags) serveHealth(ctx context.Context, clients *loop.Clients) (loop.Runner, error) {
	if f.nodes > 0 || f.healthPort == 0 {
		return loop.Join(), nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(f.healthAddress, strconv.Itoa(f.healthPort)))
	if err != nil {
		return nil, fmt.Errorf("--healthz-port: %w", err)
	}
	return loop.Serve(listener, loop.Endpoints(clients, nil)), nil
}

// alone runs a standalone kubelet.
func (f *Flags) alone(ctx context.Context, fl *pflag.FlagSet) error {
	log, err := f.Log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	if err := f.warn(fl, log); err != nil {
		return err
	}
	o, err := f.options()
	if err != nil {
		return err
	}
	o.Logger = log
	f.limits.protect(log)
	node, err := kubelet.New(o)
	if err != nil {
		return err
	}
	return loop.Join(node, loop.Func(memory.Tidy)).Run(ctx)
}

func (f *Flags) options() (kubelet.Options, error) {
	o := kubelet.Options{
		Name: f.name, Socket: f.runtime, Root: f.root, Logs: f.inFile.podLogs,
		ServeDevices: true, Manifests: f.manifests, ManifestURL: f.manifestURL,
		ManifestHeader: http.Header(f.manifestHeaders), SourceEvery: f.fileEvery, URLEvery: f.urlEvery, Labels: f.labels,
		ProviderID: f.providerID, NoRegister: !f.register, StatusEvery: f.statusEvery, LeaseFor: f.inFile.lease, LeaseEvery: f.inFile.lease / 4,
		Pulls: f.pulls, Backoff: worker.Backoff{Max: f.inFile.restartAfter},
		Addresses: strings.FieldsFunc(f.nodeIP, func(r rune) bool { return r == ',' }), ClusterDNS: f.dns, ClusterDomain: f.domain,
		CgroupParent: f.cgroupRoot, UnsafeSysctls: f.unsafeSysctls, ImageHighUse: f.imageHigh, ImageLowUse: f.imageLow, Rotation: logs.Rotation{Files: f.logFiles},
		ImageRest: f.imageRest,
		Capacity:  corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(int64(f.mostPods()), resource.DecimalSI)},
		Resolver:  f.resolver, SeccompDefault: f.seccompDefault, NoCPUQuota: !f.cpuQuota, StatusImages: &f.statusImages,
	}
	if f.podsPerCore < 0 {
		return o, fmt.Errorf("--pods-per-core %d must not be a negative number", f.podsPerCore)
	}
	if f.statusImages < -1 {
		return o, fmt.Errorf("--node-status-max-images %d must be -1 or greater", f.statusImages)
	}
	size, err := resource.ParseQuantity(f.logSize)
	if err != nil || size.Sign() <= 0 {
		return o, fmt.Errorf("--container-log-max-size: %q is no size", f.logSize)
	}
	o.Rotation.Size = size.Value()
	if f.serialPulls {
		o.Pulls = 1
	}
	for flag, words := range map[string]map[string]string{"system-reserved": f.reserved, "kube-reserved": f.kubeReserved} {
		if err := reserve(&o.Reserved, words); err != nil {
			return o, fmt.Errorf("--%s: %w", flag, err)
		}
	}
	if err := f.eviction.options(&o); err != nil {
		return o, err
	}
	return o, f.limits.options(&o)
}

// mostPods is how many pods the node accepts.
func (f *Flags) mostPods() int {
	if f.podsPerCore > 0 {
		return min(f.maxPods, f.podsPerCore*runtime.NumCPU())
	}
	return f.maxPods
}

// reserve adds quantities to those that are reserved.
func reserve(all *corev1.ResourceList, words map[string]string) error {
	for name, text := range words {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return fmt.Errorf("%s=%s: %w", name, text, err)
		}
		if *all == nil {
			*all = corev1.ResourceList{}
		}
		q.Add((*all)[corev1.ResourceName(name)])
		(*all)[corev1.ResourceName(name)] = q
	}
	return nil
}

// access accepts clients with a certificate of the CA in --client-ca-file or, without it, of the kubeconfig's CA. The
// returned runner reloads or renews the serving certificate.
func (f *Flags) access(authorities []byte, clients *loop.Clients) (server.Access, loop.Runner, error) {
	a := server.Access{Listen: net.JoinHostPort(f.address, strconv.Itoa(f.port)), Names: []string{"kube-apiserver-kubelet-client"}, NoDebugging: !f.debugging}
	shape, err := f.tls.Options()
	if err != nil {
		return a, nil, err
	}
	if a.Policy, err = f.policy.policy(); err != nil {
		return a, nil, err
	}
	a.TLS = server.TLS{MinVersion: shape.MinVersion, Suites: shape.CipherSuites, Curves: shape.Curves}
	if f.clientCA != "" {
		text, err := os.ReadFile(f.clientCA)
		if err != nil {
			return a, nil, fmt.Errorf("--client-ca-file: %w", err)
		}
		authorities = text
	}
	if len(authorities) > 0 {
		if a.Clients = x509.NewCertPool(); !a.Clients.AppendCertsFromPEM(authorities) {
			return a, nil, fmt.Errorf("--client-ca-file: %s holds no PEM certificate", cmp.Or(f.clientCA, "the kubeconfig"))
		}
	}
	switch {
	case f.certFile != "" || f.keyFile != "":
		pair, err := credentials.WatchFiles(f.certFile, f.keyFile, clients.Log)
		if err != nil {
			return a, nil, fmt.Errorf("--tls-cert-file and --tls-private-key-file: %w", err)
		}
		a.Present = pair.Get
		return a, pair, nil
	case f.joining.rotateServing && f.nodes == 0:
		serving, err := f.serving(clients)
		a.Present = serving.Get
		return a, serving, err
	}
	return a, loop.Func(func(context.Context) error { return nil }), nil
}

// parseTaints parses key=value:effect and key:effect.
func parseTaints(words []string) ([]corev1.Taint, error) {
	var out []corev1.Taint
	for _, word := range words {
		what, effect, ok := strings.Cut(word, ":")
		key, value, _ := strings.Cut(what, "=")
		switch e := corev1.TaintEffect(effect); {
		case !ok || key == "":
			return nil, fmt.Errorf("--register-with-taints: %q is not key=value:effect", word)
		case e != corev1.TaintEffectNoSchedule && e != corev1.TaintEffectPreferNoSchedule && e != corev1.TaintEffectNoExecute:
			return nil, fmt.Errorf("--register-with-taints: the effect of %q is none of NoSchedule, PreferNoSchedule, NoExecute", word)
		default:
			out = append(out, corev1.Taint{Key: key, Value: value, Effect: e})
		}
	}
	return out, nil
}
