package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace"
)

// upFlags are the flags of `millrace up`.
type upFlags struct {
	data, listen, kubeconfig, runtime      string
	etcdServers, etcdCert, etcdKey, etcdCA string
	controllers                            string
	nodes                                  int
	tokenFile                              string
	serviceRange                           string
	hosts                                  []string
	noScheduler                            bool
	log                                    logFlags
}

// logFlags say what is logged, and how.
type logFlags struct {
	level  string
	format string
}

func (l *logFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&l.level, "log-level", "warn", "debug, info, warn or error")
	c.Flags().StringVar(&l.format, "logging-format", "text", "text or json")
}

func (l *logFlags) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return nil, fmt.Errorf("--log-level %q is none of debug, info, warn, error", l.level)
	}
	o := &slog.HandlerOptions{Level: level}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, fmt.Errorf("--logging-format %q is neither text nor json", l.format)
}

func upCommand() *cobra.Command {
	f := &upFlags{}
	c := &cobra.Command{
		Use:   "up",
		Short: "Run a whole cluster in this process",
		Long: "Run a whole cluster in this process: store, API server, controllers, scheduler and hollow nodes.\n" +
			"Ctrl-C ends it. It leaves nothing behind but its data folder.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return up(c.Context(), c.OutOrStdout(), f) },
	}
	fl := c.Flags()
	fl.StringVar(&f.data, "data", defaultData(), `folder that keeps the cluster; "memory" keeps nothing`)
	fl.StringVar(&f.listen, "listen", "127.0.0.1:6443", "address of the API; port 0 takes a free one")
	fl.StringVar(&f.etcdServers, "etcd-servers", "", "URLs of an etcd cluster to use instead of the embedded one, with commas between")
	fl.StringVar(&f.etcdCert, "etcd-certfile", "", "client certificate for the etcd cluster")
	fl.StringVar(&f.etcdKey, "etcd-keyfile", "", "key of the client certificate")
	fl.StringVar(&f.etcdCA, "etcd-cafile", "", "authority of the etcd cluster's certificates")
	fl.StringVar(&f.kubeconfig, "kubeconfig", "", "where to write the kubeconfig (default: kubeconfig in the data folder)")
	fl.IntVar(&f.nodes, "nodes", 1, "how many hollow nodes to run")
	fl.StringVar(&f.runtime, "runtime", "hollow", `"hollow", or "cri:SOCKET" to make this machine a node`)
	fl.StringVar(&f.controllers, "controllers", "*", `loops to run: "*" all, "foo" one, "-foo" all but one`)
	fl.BoolVar(&f.noScheduler, "no-scheduler", false, "leave pods without a node")
	fl.StringVar(&f.tokenFile, "token-auth-file", "", "file of static tokens: token,user,uid,\"group1,group2\"")
	fl.StringVar(&f.serviceRange, "service-cluster-ip-range", "10.96.0.0/16", "where services get their addresses")
	fl.StringSliceVar(&f.hosts, "tls-sans", nil, "further names and addresses in the server's certificate")
	f.log.add(c)
	return c
}

// defaultData is a folder of the user's own.
func defaultData() string {
	base, err := os.UserHomeDir()
	if err != nil {
		return "millrace-data"
	}
	if x := os.Getenv("XDG_DATA_HOME"); x != "" {
		return filepath.Join(x, "millrace")
	}
	return filepath.Join(base, ".local", "share", "millrace")
}

func (f *upFlags) options(log *slog.Logger) (millrace.Options, error) {
	o := millrace.Options{
		Data: f.data, Listen: f.listen, Nodes: f.nodes, TokenFile: f.tokenFile, ServiceRange: f.serviceRange, Hosts: f.hosts, NoScheduler: f.noScheduler,
		Controllers: strings.FieldsFunc(f.controllers, func(r rune) bool { return r == ',' }),
		Etcd:        millrace.EtcdOptions{CertFile: f.etcdCert, KeyFile: f.etcdKey, CAFile: f.etcdCA},
		Logger:      log,
	}
	if f.etcdServers != "" {
		o.Etcd.Servers = strings.Split(f.etcdServers, ",")
	}
	if o.Controllers == nil {
		o.Controllers = []string{}
	}
	kind, socket, _ := strings.Cut(f.runtime, ":")
	switch {
	case f.runtime == "hollow":
	case kind == "cri" && socket != "":
		o.Runtime = socket
	default:
		return o, fmt.Errorf("--runtime %q is neither hollow nor cri:SOCKET", f.runtime)
	}
	return o, nil
}

func up(ctx context.Context, out io.Writer, f *upFlags) error {
	log, err := f.log.logger(os.Stderr)
	if err != nil {
		return err
	}
	o, err := f.options(log)
	if err != nil {
		return err
	}
	began := time.Now()
	where := "in memory; nothing is kept"
	switch {
	case len(o.Etcd.Servers) > 0:
		where = "in the etcd cluster at " + strings.Join(o.Etcd.Servers, ", ")
	case f.data != "memory":
		where = "in " + f.data
	}
	fmt.Fprintf(out, "Starting. The cluster is kept %s.\n", where)
	cluster, err := millrace.Start(ctx, o)
	if err != nil {
		return err
	}
	path, remove, err := f.writeKubeconfig(cluster)
	if err != nil {
		cluster.Close()
		return err
	}
	defer remove()
	fmt.Fprintf(out, "Ready after %v at %s, with %d hollow nodes. Ctrl-C ends it.\n\nexport KUBECONFIG=%s\n", time.Since(began).Round(time.Millisecond), cluster.URL(), o.Nodes, path)
	giveBack()
	select {
	case <-ctx.Done():
		fmt.Fprintln(out, "Ending.")
		return cluster.Close()
	case err := <-cluster.Failed():
		cluster.Close()
		return err
	}
}

// writeKubeconfig writes it where the user asked, into the data folder, or, if there is none, into a file that goes with
// the process.
func (f *upFlags) writeKubeconfig(c *millrace.Cluster) (path string, remove func(), err error) {
	remove = func() {}
	switch path = f.kubeconfig; {
	case path != "":
	case f.data != "memory":
		path = filepath.Join(f.data, "kubeconfig")
	default:
		folder, err := os.MkdirTemp("", "millrace-")
		if err != nil {
			return "", remove, err
		}
		path, remove = filepath.Join(folder, "kubeconfig"), func() { os.RemoveAll(folder) }
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", remove, err
	}
	return path, remove, c.WriteKubeconfig(path)
}
