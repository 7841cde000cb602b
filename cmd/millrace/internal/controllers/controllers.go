// Package controllers is `millrace controllers`: the controllers alone, with the flags of kube-controller-manager.
package controllers

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/cmd/millrace/internal/client"
	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/cmd/millrace/internal/ports"
	"github.com/millrace/millrace/internal/controllers"
	loopmetrics "github.com/millrace/millrace/internal/controllers/prommetrics"
	"github.com/millrace/millrace/internal/server/pki"
	"github.com/millrace/millrace/loop"
)

// Flags are the flags of `millrace controllers`, under kube-controller-manager's names.
type Flags struct {
	client.Flags
	client.ElectionFlags
	loopFlags
	version            flags.Version
	gates              flags.Gates
	list               []string
	rootCA, signingKey string
	ownAccounts        bool
	signing            signingFlags
	secure             ports.Secure
}

func Command() *cobra.Command {
	f := &Flags{}
	c := &cobra.Command{
		Use:   "controllers",
		Short: "Run the controllers alone",
		Long:  "Run the controllers alone, with the flags of kube-controller-manager, against any Kubernetes API server.",
		Args:  cobra.NoArgs,
		RunE: flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
			if f.version.Print(c.OutOrStdout()) {
				return nil
			}
			return f.run(ctx, c)
		}),
	}
	f.Register(c)
	return c
}

func (f *Flags) Register(c *cobra.Command) {
	fl := c.Flags()
	f.Flags.Add(c)
	f.Pace.Add(fl)
	f.ElectionFlags.Add(c, "kube-controller-manager")
	f.version.Add(fl)
	f.gates.Add(fl)
	flags.UnusedByControllers.Add(fl)
	all, _ := loop.Names(controllers.All(controllers.Options{}))
	fl.StringSliceVar(&f.list, "controllers", []string{"*"}, `loops to run: "*" all that are on by default, "foo" one, "-foo" all but one; all are `+strings.Join(all, ", "))
	fl.StringVar(&f.rootCA, "root-ca-file", "", "CA certificates of the API server, for pods (default: those of the kubeconfig)")
	fl.StringVar(&f.signingKey, "service-account-private-key-file", "", "RSA or ECDSA key that signs tokens of service accounts in secrets (default: no such tokens are made)")
	fl.BoolVar(&f.ownAccounts, "use-service-account-credentials", false, "let each loop send its requests as a service account of its own in kube-system")
	f.loopFlags.add(fl)
	f.signing.add(c)
	f.secure.Add(c, 10257)
}

// check reports wrong values, before anything is started.
func (f *Flags) check() error {
	if err := f.loopFlags.check(); err != nil {
		return err
	}
	if err := f.secure.Check(); err != nil {
		return err
	}
	return flags.Files(map[string]string{"root-ca-file": f.rootCA, "service-account-private-key-file": f.signingKey})
}

func (f *Flags) run(ctx context.Context, c *cobra.Command) error {
	election, err := f.Election()
	if err != nil {
		return err
	}
	words, err := Selection(strings.Join(f.list, ","))
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	options, err := f.options()
	if err != nil {
		return err
	}
	if f.ownAccounts {
		f.Adapt = func(config *rest.Config) error {
			return loop.UseAccounts(config, metav1.NamespaceSystem, controllers.Account)
		}
	}
	clients, config, err := f.Clients(c.OutOrStdout())
	if err != nil {
		return err
	}
	clients.Workers = f.workersOf
	flags.UnusedByControllers.Warn(c.Flags(), "kube-controller-manager", clients.Log)
	f.gates.Warn(clients.Log)
	options.RootCA = config.CAData
	if f.rootCA != "" {
		if options.RootCA, err = os.ReadFile(f.rootCA); err != nil {
			return err
		}
	}
	told, err := ports.NewTelling(f.Registry, clients, func() map[string]any {
		return map[string]any{"kubecontrollermanager.config.k8s.io": map[string]any{"Generic": map[string]any{"Controllers": words, "LeaderElection": f.ElectionFlags.Told()}}}
	})
	if err != nil {
		return err
	}
	group := &loop.Group{Clients: clients.As(controllers.Program), Select: words, Identify: loop.WithName}
	if err := measure(group, &options, election, told); err != nil {
		return err
	}
	if len(words) > 0 { // an empty list runs none
		group.Entries = f.entries(options)
	}
	tells, err := f.secure.Serve(ctx, clients, config.CAData, told)
	if err != nil {
		return err
	}
	return loop.Run(ctx, clients, group, tells)
}

// options returns the options of the loops that need no client.
func (f *Flags) options() (controllers.Options, error) {
	options, err := f.loopFlags.options()
	if err != nil {
		return options, err
	}
	if options.Signing, err = f.signing.signing(); err != nil {
		return options, err
	}
	if f.signingKey != "" {
		if options.Making.Key, err = pki.ReadSigner(f.signingKey); err != nil {
			return options, fmt.Errorf("--service-account-private-key-file: %w", err)
		}
	}
	return options, nil
}

// measure adds metrics to the loops and to their election.
func measure(group *loop.Group, options *controllers.Options, election *loop.Election, told *ports.Telling) (err error) {
	if err := loopmetrics.Measure(options, told.Metrics); err != nil {
		return err
	}
	if group.Runs, err = loopmetrics.Runs(told.Metrics, controllers.Program); err != nil {
		return err
	}
	group.Election, err = client.Measured(election, told.Metrics)
	return err
}
