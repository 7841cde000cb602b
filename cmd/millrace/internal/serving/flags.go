// Package serving has what the commands have in common that serve the API, and runs a cluster for them until it is
// ended.
package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	quantity "k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/cmd/millrace/internal/memory"
	"github.com/millrace/millrace/cmd/millrace/internal/notify"
	"github.com/millrace/millrace/internal/server/allocation"
)

// Flags are the flags of commands that serve the API.
type Flags struct {
	Data, kubeconfig                  string
	Etcd                              flags.Etcd
	tokenFile, ServiceRange, clientCA string
	hosts                             []string
	advertise                         string
	privileged                        bool
	Page                              bool
	history                           time.Duration
	historySize                       string
	auditFlags                        auditFlags
	AuthFlags                         authFlags
	Log                               flags.Log
	all                               *pflag.FlagSet
}

func (f *Flags) Add(c *cobra.Command) {
	fl := c.Flags()
	f.all = fl
	fl.StringVar(&f.Data, "data", DefaultData(), `directory that stores the cluster; "memory" stores nothing`)
	fl.StringVar(&f.kubeconfig, "kubeconfig", "", "file to write the administrator's kubeconfig to (default: kubeconfig in the data directory)")
	f.Etcd.Add(c, "default: a log in the data directory")
	fl.StringVar(&f.advertise, "advertise-address", "",
		"address at which pods and other servers reach the API (default: the listen address or, if that is a loopback or unspecified address, the address of the default route)")
	fl.StringVar(&f.tokenFile, "token-auth-file", "", "file of static tokens: token,user,uid,\"group1,group2\"")
	fl.StringVar(&f.clientCA, "client-ca-file", "", "additional CA certificates for client certificates")
	fl.StringVar(&f.ServiceRange, "service-cluster-ip-range", "10.96.0.0/16", "address range of services")
	fl.StringSliceVar(&f.hosts, "tls-sans", nil, "additional names and addresses in the serving certificate")
	fl.BoolVar(&f.privileged, "allow-privileged", false, "allow privileged containers")
	fl.BoolVar(&f.Page, "page", false, "serve a page for browsers at /page/; \"millrace page\" makes links to it")
	fl.DurationVar(&f.history, "history", 24*time.Hour, "how long every change is kept in the data directory, so that past states can be read; 0 keeps none")
	fl.StringVar(&f.historySize, "history-size", "1Gi", "space that the history may have on the disk; what is older makes room")
	f.auditFlags.add(fl)
	f.AuthFlags.add(fl)
	f.Log.Add(c)
}

// Options checks the flags before anything is started.
func (f *Flags) Options(listen, listenFlag string, log *slog.Logger) (millrace.Options, error) {
	o := millrace.Options{
		Data: f.Data, Listen: listen, TokenFile: f.tokenFile, ServiceRange: f.ServiceRange, Hosts: f.hosts,
		Etcd:      millrace.EtcdOptions(f.Etcd),
		Advertise: f.advertise,
		Serving:   millrace.ServingOptions{ClientCAFile: f.clientCA, Flags: f.values()}, AllowPrivileged: f.privileged,
		Audit: f.auditFlags.audit, Encryption: f.auditFlags.encryption,
		Page:   f.Page,
		Logger: log,
	}
	if err := f.AuthFlags.check(); err != nil {
		return o, err
	}
	f.AuthFlags.apply(&o)
	if f.Data == "" {
		return o, fmt.Errorf(`--data is empty: name a directory, or "memory"`)
	}
	if _, _, err := net.SplitHostPort(listen); err != nil {
		return o, fmt.Errorf("%s %q is not an address such as 127.0.0.1:6443: %w", listenFlag, listen, err)
	}
	size, err := quantity.ParseQuantity(cmp.Or(f.historySize, "0"))
	if err != nil || size.Sign() < 0 {
		return o, fmt.Errorf("--history-size %q is not a size such as 1Gi", f.historySize)
	}
	if f.history < 0 {
		return o, fmt.Errorf("--history %v is less than 0", f.history)
	}
	o.History = millrace.HistoryOptions{Age: f.history, Bytes: size.Value()}
	if f.Etcd.StartTimeout < 0 {
		return o, fmt.Errorf("--etcd-start-timeout %v is less than 0", f.Etcd.StartTimeout)
	}
	if ip := net.ParseIP(f.advertise); f.advertise != "" && (ip == nil || ip.IsLoopback() || ip.IsUnspecified()) {
		return o, fmt.Errorf("--advertise-address %q is not an address that pods can reach, such as 10.0.0.1", f.advertise)
	}
	if _, err := allocation.ParseRanges(f.ServiceRange); err != nil {
		return o, fmt.Errorf("--service-cluster-ip-range %q is not a range such as 10.96.0.0/16", f.ServiceRange)
	}
	for _, byFlag := range []map[string]string{f.auditFlags.files(), f.AuthFlags.files()} {
		if err := flags.Files(byFlag); err != nil {
			return o, err
		}
	}
	return o, flags.Files(map[string]string{
		"etcd-certfile": f.Etcd.CertFile, "etcd-keyfile": f.Etcd.KeyFile, "etcd-cafile": f.Etcd.CAFile, "token-auth-file": f.tokenFile, "client-ca-file": f.clientCA,
	})
}

// values are all flags of the command. Secrets are in files, never in flags.
func (f *Flags) values() map[string]string {
	all := map[string]string{}
	if f.all != nil {
		f.all.VisitAll(func(one *pflag.Flag) { all[one.Name] = one.Value.String() })
	}
	return all
}

// where describes where the cluster is stored.
func (f *Flags) where() string {
	switch {
	case len(f.Etcd.Servers) > 0:
		return "The cluster is kept in the etcd cluster at " + strings.Join(f.Etcd.Servers, ", ") + "."
	case f.Data == "memory":
		return "The cluster is in memory, and ends with this process."
	}
	return "The cluster is kept in " + f.Data + "."
}

// WantsKubeconfig reports whether a file for the administrator's kubeconfig is named.
func (f *Flags) WantsKubeconfig() bool { return f.kubeconfig != "" }

// writeKubeconfig writes the kubeconfig to the given file, into the data directory, or, if there is neither, into a
// temporary file.
func (f *Flags) writeKubeconfig(c *millrace.Cluster) (path string, remove func(), err error) {
	remove = func() {}
	switch path = f.kubeconfig; {
	case path != "":
	case f.Data != "memory":
		path = filepath.Join(f.Data, "kubeconfig")
	default:
		directory, err := os.MkdirTemp("", "millrace-")
		if err != nil {
			return "", remove, err
		}
		path, remove = filepath.Join(directory, "kubeconfig"), func() { os.RemoveAll(directory) }
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", remove, err
	}
	return path, remove, c.WriteKubeconfig(path)
}

// DefaultData returns a directory in the user's home.
func DefaultData() string {
	base, err := os.UserHomeDir()
	if err != nil {
		return "millrace-data"
	}
	if x := os.Getenv("XDG_DATA_HOME"); x != "" {
		return filepath.Join(x, "millrace")
	}
	return filepath.Join(base, ".local", "share", "millrace")
}

// Serve runs a cluster until the context ends, and prints how to reach it.
func (f *Flags) Serve(ctx context.Context, out io.Writer, o millrace.Options, listenFlag string) error {
	began := time.Now()
	fmt.Fprintf(out, "Starting. %s\n", f.where())
	cluster, err := millrace.Start(ctx, o)
	if err != nil {
		return Explain(err, o, listenFlag)
	}
	path := ""
	if !o.Serving.OnlyGiven {
		var remove func()
		if path, remove, err = f.writeKubeconfig(cluster); err != nil {
			return errors.Join(err, cluster.Close())
		}
		defer remove()
	}
	with := ""
	if o.Nodes > 0 {
		with = ", with one hollow node"
	}
	if o.Nodes > 1 {
		with = fmt.Sprintf(", with %d hollow nodes", o.Nodes)
	}
	fmt.Fprintf(out, "Ready after %v at %s%s. Ctrl-C ends it.\n", time.Since(began).Round(time.Millisecond), cluster.URL(), with)
	if path != "" {
		fmt.Fprintf(out, "\nexport KUBECONFIG=%s\n", path)
		if err := f.printPage(out, cluster); err != nil {
			return errors.Join(err, cluster.Close())
		}
	} else {
		fmt.Fprintln(out, "All its certificates are given, so there is no kubeconfig of its own.")
	}
	if err := notify.Ready(); err != nil {
		o.Logger.Warn("systemd cannot be told that the cluster is ready", "error", err)
	}
	memory.GiveBack()
	var tidying sync.WaitGroup
	defer tidying.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tidying.Go(func() { memory.GiveBackWhenQuiet(ctx) })
	if path != "" {
		tidying.Go(func() { keepKubeconfig(ctx, cluster, path, o.Logger) })
	}
	select {
	case <-ctx.Done():
		fmt.Fprintln(out, "Ending.")
		if err := notify.Stopping(); err != nil {
			o.Logger.Warn("systemd cannot be told that the cluster ends", "error", err)
		}
		return within(endsWithin, cluster.Close)
	case err := <-cluster.Failed():
		return errors.Join(err, within(endsWithin, cluster.Close))
	}
}

// endsWithin is how long a cluster may take to end in order: requests have a second, and what is written is safe.
const endsWithin = 30 * time.Second

// within calls a function, and gives up after a while. The process ends then, and the function with it.
func within(limit time.Duration, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		return fmt.Errorf("the cluster did not end in order within %v: what was written is safe", limit)
	}
}

// printPage prints a link to the page.
func (f *Flags) printPage(out io.Writer, c *millrace.Cluster) error {
	if !f.Page {
		return nil
	}
	link, err := c.PageLink("")
	if err == nil {
		fmt.Fprintf(out, "%s    # in a browser, once, within ten minutes; `millrace page` makes another\n", link)
	}
	return err
}
