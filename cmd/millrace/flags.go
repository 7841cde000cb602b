package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/controllers"
	"github.com/millrace/millrace/internal/server/allocation"
	"github.com/millrace/millrace/loop"
)

// logFlags configure logging.
type logFlags struct {
	level     string
	format    string
	verbosity int
}

func (l *logFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&l.level, "log-level", "", "debug, info, warn or error (default warn)")
	c.Flags().IntVarP(&l.verbosity, "v", "v", 0, "Kubernetes' log level: 0 is warn, 1 to 3 info, 4 and more debug")
	c.Flags().StringVar(&l.format, "logging-format", "text", "text or json")
}

func (l *logFlags) logger(w io.Writer) (*slog.Logger, error) {
	level := slog.LevelWarn
	switch {
	case l.verbosity >= 4:
		level = slog.LevelDebug
	case l.verbosity >= 1:
		level = slog.LevelInfo
	}
	if l.level != "" {
		if err := level.UnmarshalText([]byte(l.level)); err != nil {
			return nil, fmt.Errorf("--log-level %q is none of debug, info, warn, error", l.level)
		}
	}
	o := &slog.HandlerOptions{Level: level}
	var log *slog.Logger
	switch l.format {
	case "text":
		log = slog.New(slog.NewTextHandler(w, o))
	case "json":
		log = slog.New(slog.NewJSONHandler(w, o))
	default:
		return nil, fmt.Errorf("--logging-format %q is neither text nor json", l.format)
	}
	klog.SetSlogLogger(slog.New(libraryHandler{log.Handler()})) // Kubernetes' libraries log through klog
	return log, nil
}

// serverFlags are the flags of commands that serve the API.
type serverFlags struct {
	data, kubeconfig                  string
	etcdServers                       []string
	etcdCert, etcdKey, etcdCA         string
	tokenFile, serviceRange, clientCA string
	hosts                             []string
	etcdTimeout                       time.Duration
	advertise                         string
	privileged                        bool
	auditFlags                        auditFlags
	authFlags                         authFlags
	log                               logFlags
}

func (f *serverFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.data, "data", defaultData(), `directory that stores the cluster; "memory" stores nothing`)
	fl.StringVar(&f.kubeconfig, "kubeconfig", "", "file to write the administrator's kubeconfig to (default: kubeconfig in the data directory)")
	fl.StringSliceVar(&f.etcdServers, "etcd-servers", nil, "URLs of an external etcd cluster, separated by commas (default: an embedded etcd)")
	fl.StringVar(&f.etcdCert, "etcd-certfile", "", "client certificate for the etcd cluster")
	fl.StringVar(&f.etcdKey, "etcd-keyfile", "", "key of the client certificate")
	fl.StringVar(&f.etcdCA, "etcd-cafile", "", "CA certificates of the etcd cluster")
	fl.DurationVar(&f.etcdTimeout, "etcd-start-timeout", 20*time.Second, "how long to wait at the start for an etcd cluster that does not answer")
	fl.StringVar(&f.advertise, "advertise-address", "", "address at which pods and other servers reach the API (default: the listen address or, if that is a loopback or unspecified address, the address of the default route)")
	fl.StringVar(&f.tokenFile, "token-auth-file", "", "file of static tokens: token,user,uid,\"group1,group2\"")
	fl.StringVar(&f.clientCA, "client-ca-file", "", "additional CA certificates for client certificates")
	fl.StringVar(&f.serviceRange, "service-cluster-ip-range", "10.96.0.0/16", "address range of services")
	fl.StringSliceVar(&f.hosts, "tls-sans", nil, "additional names and addresses in the serving certificate")
	fl.BoolVar(&f.privileged, "allow-privileged", false, "allow privileged containers")
	f.auditFlags.add(fl)
	f.authFlags.add(fl)
	f.log.add(c)
}

// options checks the flags before anything is started.
func (f *serverFlags) options(listen, listenFlag string, log *slog.Logger) (millrace.Options, error) {
	o := millrace.Options{
		Data: f.data, Listen: listen, TokenFile: f.tokenFile, ServiceRange: f.serviceRange, Hosts: f.hosts,
		Etcd:      millrace.EtcdOptions{Servers: f.etcdServers, CertFile: f.etcdCert, KeyFile: f.etcdKey, CAFile: f.etcdCA, StartTimeout: f.etcdTimeout},
		Advertise: f.advertise,
		Serving:   millrace.ServingOptions{ClientCAFile: f.clientCA}, AllowPrivileged: f.privileged,
		Audit: f.auditFlags.audit, Encryption: f.auditFlags.encryption,
		Logger: log,
	}
	if err := f.authFlags.check(); err != nil {
		return o, err
	}
	f.authFlags.apply(&o)
	if f.data == "" {
		return o, fmt.Errorf(`--data is empty: name a directory, or "memory"`)
	}
	if _, _, err := net.SplitHostPort(listen); err != nil {
		return o, fmt.Errorf("%s %q is not an address such as 127.0.0.1:6443: %w", listenFlag, listen, err)
	}
	if f.etcdTimeout < 0 {
		return o, fmt.Errorf("--etcd-start-timeout %v is less than 0", f.etcdTimeout)
	}
	if ip := net.ParseIP(f.advertise); f.advertise != "" && (ip == nil || ip.IsLoopback() || ip.IsUnspecified()) {
		return o, fmt.Errorf("--advertise-address %q is not an address that pods can reach, such as 10.0.0.1", f.advertise)
	}
	if _, err := allocation.ParseRanges(f.serviceRange); err != nil {
		return o, fmt.Errorf("--service-cluster-ip-range %q is not a range such as 10.96.0.0/16", f.serviceRange)
	}
	for _, byFlag := range []map[string]string{f.auditFlags.files(), f.authFlags.files()} {
		if err := files(byFlag); err != nil {
			return o, err
		}
	}
	return o, files(map[string]string{
		"etcd-certfile": f.etcdCert, "etcd-keyfile": f.etcdKey, "etcd-cafile": f.etcdCA, "token-auth-file": f.tokenFile, "client-ca-file": f.clientCA,
	})
}

// prefixes parses a flag of address ranges separated by commas.
func prefixes(flag, text string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		p, err := netip.ParsePrefix(strings.TrimSpace(word))
		if err != nil {
			return nil, fmt.Errorf("--%s: %q is not a range such as 10.244.0.0/16", flag, word)
		}
		all = append(all, p)
	}
	return all, nil
}

// files checks that the files that flags name can be read.
func files(byFlag map[string]string) error {
	for flag, path := range byFlag {
		if path == "" {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
		f.Close()
	}
	return nil
}

// where describes where the cluster is stored.
func (f *serverFlags) where() string {
	switch {
	case len(f.etcdServers) > 0:
		return "in the etcd cluster at " + strings.Join(f.etcdServers, ", ")
	case f.data == "memory":
		return "in memory; nothing is kept"
	}
	return "in " + f.data
}

// writeKubeconfig writes the kubeconfig to the given file, into the data directory, or, if there is neither, into a temporary file.
func (f *serverFlags) writeKubeconfig(c *millrace.Cluster) (path string, remove func(), err error) {
	remove = func() {}
	switch path = f.kubeconfig; {
	case path != "":
	case f.data != "memory":
		path = filepath.Join(f.data, "kubeconfig")
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

// defaultData returns a directory in the user's home.
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

// selection parses --controllers. An empty list runs none.
func selection(list string) ([]string, error) {
	words := strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
	if words == nil {
		return []string{}, nil
	}
	entries := controllers.All(controllers.Options{})
	if _, err := loop.Select(entries, words); err != nil {
		all, _ := loop.Names(entries)
		return nil, fmt.Errorf("--controllers: %w: %s", err, strings.Join(all, ", "))
	}
	return words, nil
}
