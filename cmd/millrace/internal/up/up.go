// Package up is `millrace up`: a whole cluster in this process.
package up

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/cmd/millrace/internal/config"
	"github.com/millrace/millrace/cmd/millrace/internal/controllers"
	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/cmd/millrace/internal/kubelet"
	"github.com/millrace/millrace/cmd/millrace/internal/serving"
	"github.com/millrace/millrace/internal/kubelet/pressure"
)

// upFlags are the flags of `millrace up`.
type upFlags struct {
	serving.Flags
	listen, runtime, controllers string
	kubeletRoot                  string
	eviction                     []string
	podRange, balancer           string
	cni                          millrace.CNIOptions
	nodes                        int
	noScheduler, planes          bool
}

// groups are the flags in the order of --help.
var groups = []flags.Group{
	{Title: "Flags", Names: []string{"config", "data", "listen", "nodes", "runtime"}},
	{Title: "The cluster", Names: []string{"planes", "controllers", "no-scheduler", "history", "history-size", "page", "kubeconfig", "service-cluster-ip-range",
		"load-balancer", "advertise-address", "tls-sans", "allow-privileged"}},
	{Title: "A real node", Names: []string{"root-dir", "cluster-cidr"}, Prefixes: []string{"cni-", "eviction-"}},
	{Title: "Log", Names: []string{"log-level", "logging-format", "v"}},
	{Title: "Audit and encryption", Prefixes: []string{"audit-", "encryption-"}},
	{Title: "Access", Names: []string{"client-ca-file", "token-auth-file"}, Prefixes: []string{"anonymous-", "authentication-", "authorization-", "oidc-",
		"service-account-", "api-audiences", "requestheader-"}},
	{Title: "etcd", Prefixes: []string{"etcd-"}},
}

func Command() *cobra.Command {
	f := &upFlags{}
	c := &cobra.Command{
		Use:   "up",
		Short: "Run a whole cluster in this process",
		Long: "Run a whole cluster in this process: store, API server, controllers, scheduler and hollow nodes.\n" +
			"Ctrl-C ends it. It leaves nothing behind but its data directory.\n" + flags.Missing(runtime.GOOS),
		Example: "  millrace up                                # in the default data directory, with one hollow node\n" +
			"  millrace up --data memory --nodes 100      # nothing is stored, and a hundred nodes\n" +
			"  millrace up --listen 0.0.0.0:6443          # other machines reach it\n" +
			"  millrace up --runtime cri:/run/containerd/containerd.sock    # this machine is a node with real containers; as root",
		Args: cobra.NoArgs,
		RunE: flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
			if err := config.Read(c.Flags(), os.LookupEnv); err != nil {
				return err
			}
			log, err := f.Log.Logger(os.Stderr)
			if err != nil {
				return err
			}
			if !c.Flags().Changed("page") {
				f.Page = onLoopback(f.listen)
			}
			o, err := f.options(c.Flags().Changed("nodes"), log)
			if err != nil {
				return err
			}
			if missing := flags.Missing(runtime.GOOS); missing != "" {
				fmt.Fprintln(c.OutOrStdout(), missing)
			}
			return f.Serve(ctx, c.OutOrStdout(), o, "--listen")
		}),
	}
	f.Add(c)
	fl := c.Flags()
	config.Add(fl)
	fl.Lookup("page").Usage += " (default: true if --listen is an address of loopback)"
	fl.StringVar(&f.listen, "listen", "127.0.0.1:6443", "address of the API; port 0 takes a free one")
	fl.IntVar(&f.nodes, "nodes", 1, "number of hollow nodes (default with a real node: none)")
	fl.StringVar(&f.runtime, "runtime", "hollow", `"hollow", or "cri:SOCKET" to make this machine a node`)
	fl.StringVar(&f.kubeletRoot, "root-dir", "", "directory for the volumes and plugins of a real node; drivers of storage and devices expect /var/lib/kubelet (default: kubelet in --data)")
	kubelet.AddEviction(fl, &f.eviction)
	fl.StringVar(&f.podRange, "cluster-cidr", "10.244.0.0/16", `pod range of a real node; "none" does not change this machine's network`)
	fl.StringVar(&f.balancer, "load-balancer", "none", `addresses of services of type LoadBalancer: "node" assigns those of the nodes, "none" leaves them to another controller`)
	fl.StringVar(&f.cni.ConfigurationDirectory, "cni-conf-dir", "/etc/cni/net.d", "where the container runtime looks for CNI configurations")
	fl.StringVar(&f.cni.PluginDirectory, "cni-bin-dir", "/opt/cni/bin", "where the container runtime looks for CNI plugins")
	fl.StringVar(&f.controllers, "controllers", "*,bootstrap-signer-controller,token-cleaner-controller", `loops to run: "*" all that are on by default, "foo" one, "-foo" all but one`)
	fl.BoolVar(&f.planes, "planes", false, `run other clusters too, at /clusters/NAME: see "millrace plane"`)
	fl.BoolVar(&f.noScheduler, "no-scheduler", false, "do not run a scheduler")
	flags.Grouped(c, groups...)
	return c
}

// onLoopback reports whether only this machine reaches an address.
func onLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

func (f *upFlags) options(nodesGiven bool, log *slog.Logger) (millrace.Options, error) {
	o, err := f.Flags.Options(f.listen, "--listen", log)
	if err != nil {
		return o, err
	}
	if o.Controllers, err = controllers.Selection(f.controllers); err != nil {
		return o, err
	}
	o.NoScheduler, o.Nodes, o.Planes = f.noScheduler, f.nodes, f.planes
	if f.balancer != "node" && f.balancer != "none" {
		return o, fmt.Errorf("--load-balancer %q is neither node nor none", f.balancer)
	}
	o.LoadBalancer = f.balancer
	if f.nodes < 0 {
		return o, fmt.Errorf("--nodes %d is less than none", f.nodes)
	}
	kind, socket, _ := strings.Cut(f.runtime, ":")
	switch {
	case f.runtime == "hollow":
		return o, nil
	case kind != "cri" || socket == "":
		return o, fmt.Errorf("--runtime %q is neither hollow nor cri:SOCKET", f.runtime)
	}
	if err := flags.RealNodes(runtime.GOOS); err != nil {
		return o, err
	}
	o.Runtime, o.KubeletRoot, o.CNI = socket, f.kubeletRoot, f.cni
	if o.Eviction, err = kubelet.Split("eviction-hard", f.eviction, "<"); err != nil {
		return o, err
	}
	if _, err := pressure.Parse(o.Eviction); err != nil {
		return o, fmt.Errorf("--eviction-hard: %w", err)
	}
	if f.podRange != "none" {
		if _, err := flags.Prefixes("cluster-cidr", f.podRange); err != nil {
			return o, err
		}
		o.PodRange = f.podRange
	}
	if !nodesGiven {
		o.Nodes = 0
	}
	return o, nil
}
