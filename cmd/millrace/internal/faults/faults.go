// Package faults is `millrace faults`: a proxy that injects faults between a client and an API server.
package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/cmd/millrace/internal/client"
	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/faults"
)

// faultsFlags are the flags of `millrace faults`.
type faultsFlags struct {
	client.Flags
	listen, plan, write string
	seed                uint64
}

func Command() *cobra.Command {
	f := &faultsFlags{}
	c := &cobra.Command{
		Use:   "faults",
		Short: "Proxy an API server and inject faults",
		Long: "Run a proxy in front of any Kubernetes API server that injects faults: conflicts, lost answers, watches that are cut, delayed or expired, a\n" +
			"full store, a server that restarts. An operator in any language that uses the kubeconfig which this command writes meets within minutes what\n" +
			"happens in a year of production. At the end it prints the faults as one line; pass it to --plan to repeat them.\n\n" +
			"A plan is a seed and rules: fault:verb:resource:namespace/name:user:when, with * for any. when is a chance such as 0.2, or #3 for the\n" +
			"third request about the same object. Requests are sent with the credentials of --kubeconfig; users are those that are impersonated.",
		Args: cobra.NoArgs,
		RunE: flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error { return f.run(ctx, c.OutOrStdout()) }),
	}
	f.Add(c)
	fl := c.Flags()
	fl.StringVar(&f.listen, "listen", "127.0.0.1:0", "address to listen on, without TLS; every client that can reach it has the credentials of --kubeconfig")
	fl.StringVar(&f.plan, "plan", "", "faults to inject (default: everything that is common in production)")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of the default plan")
	fl.StringVar(&f.write, "write-kubeconfig", "faults.kubeconfig", "where to write the kubeconfig for the operator")
	return c
}

func (f *faultsFlags) run(ctx context.Context, out io.Writer) error {
	plan := usable(faults.Usual(f.seed))
	if f.plan != "" {
		var err error
		if plan, err = faults.Parse(f.plan); err != nil {
			return fmt.Errorf("--plan: %w", err)
		}
		if len(usable(plan).Rules) < len(plan.Rules) {
			return errors.New("--plan: a proxy cannot crash its client; crash the operator yourself, or use package faults in a Go test")
		}
	}
	config, err := f.Config()
	if err != nil {
		return err
	}
	transport := faults.New(plan)
	proxy, err := faultyProxy(config, transport)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: 30 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := writeFaultsKubeconfig(f.write, "http://"+listener.Addr().String()); err != nil {
		listener.Close()
		return fmt.Errorf("--write-kubeconfig: %w", err)
	}
	fmt.Fprintf(out, "Misbehaving in front of %s. Ctrl-C ends it. For the operator:\n  export KUBECONFIG=%s\n", config.Host, f.write)
	err = server.Serve(listener)
	fmt.Fprintf(out, "What happened:\n  --plan '%s'\n", transport.Happened())
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// usable removes from a plan what only the client's own process can do.
func usable(p faults.Plan) faults.Plan {
	out := faults.Plan{Seed: p.Seed}
	for _, r := range p.Rules {
		if r.Fault != faults.Crash && r.Fault != faults.CrashBefore {
			out.Rules = append(out.Rules, r)
		}
	}
	return out
}

// faultyProxy forwards requests to an API server through a transport with faults. A lost request closes its connection.
func faultyProxy(config *rest.Config, transport *faults.Transport) (http.Handler, error) {
	through, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	to, _, err := rest.DefaultServerURL(config.Host, "", schema.GroupVersion{}, rest.IsConfigTransportTLS(*config))
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}) },
		Transport:     transport.Wrap(through),
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}, nil
}

func writeFaultsKubeconfig(path, address string) error {
	c := clientcmdapi.NewConfig()
	c.Clusters["faults"] = &clientcmdapi.Cluster{Server: address}
	c.AuthInfos["faults"] = &clientcmdapi.AuthInfo{}
	c.Contexts["faults"] = &clientcmdapi.Context{Cluster: "faults", AuthInfo: "faults"}
	c.CurrentContext = "faults"
	return clientcmd.WriteToFile(*c, path)
}
