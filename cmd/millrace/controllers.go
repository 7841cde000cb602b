package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/controllers"
	"github.com/millrace/millrace/loop"
)

// controllersFlags are the flags of `millrace controllers`, under kube-controller-manager's names.
type controllersFlags struct {
	clientFlags
	electionFlags
	list, rootCA string
	workers      []workersFlag
}

// workersFlag says how many keys a loop works on at the same time.
type workersFlag struct {
	flag, loop string
	n          *int
}

// concurrency are the flags that kube-controller-manager has for that, and the loops that they are for.
var concurrency = []workersFlag{
	{flag: "concurrent-deployment-syncs", loop: "deployment-controller"},
	{flag: "concurrent-replicaset-syncs", loop: "replicaset-controller"},
	{flag: "concurrent-rc-syncs", loop: "replicationcontroller-controller"},
	{flag: "concurrent-resource-quota-syncs", loop: "resourcequota-controller"},
	{flag: "concurrent-endpoint-syncs", loop: "endpoints-controller"},
	{flag: "concurrent-service-endpoint-syncs", loop: "endpointslice-controller"},
	{flag: "mirroring-concurrent-service-endpoint-syncs", loop: "endpointslice-mirroring-controller"},
	{flag: "concurrent-job-syncs", loop: "job-controller"},
	{flag: "concurrent-ttl-after-finished-syncs", loop: "ttl-after-finished-controller"},
}

func controllersCommand() *cobra.Command {
	f := &controllersFlags{}
	c := &cobra.Command{
		Use:   "controllers",
		Short: "Run the controllers alone",
		Long:  "Run the controllers alone, with the flags of kube-controller-manager, against any Kubernetes API server.",
		Args:  cobra.NoArgs,
		RunE:  untilSignal(func(ctx context.Context, c *cobra.Command) error { return f.run(ctx, c.OutOrStdout()) }),
	}
	f.clientFlags.add(c)
	f.electionFlags.add(c, "kube-controller-manager")
	all, _ := loop.Names(controllers.All(controllers.Options{}))
	c.Flags().StringVar(&f.list, "controllers", "*", `loops to run: "*" all, "foo" one, "-foo" all but one; all are `+strings.Join(all, ", "))
	c.Flags().StringVar(&f.rootCA, "root-ca-file", "", "authorities of the API server, for pods (default: those of the kubeconfig)")
	for _, w := range concurrency {
		w.n = c.Flags().Int(w.flag, 0, "how many keys the "+w.loop+" works on at the same time (0: its own default)")
		f.workers = append(f.workers, w)
	}
	return c
}

func (f *controllersFlags) run(ctx context.Context, out io.Writer) error {
	election, err := f.election()
	if err != nil {
		return err
	}
	words, err := selection(f.list)
	if err != nil {
		return err
	}
	if err := files(map[string]string{"root-ca-file": f.rootCA}); err != nil {
		return err
	}
	for _, w := range f.workers {
		if *w.n < 0 {
			return fmt.Errorf("--%s %d is less than 0", w.flag, *w.n)
		}
	}
	clients, config, err := f.clients(out)
	if err != nil {
		return err
	}
	authorities := config.CAData
	if f.rootCA != "" {
		if authorities, err = os.ReadFile(f.rootCA); err != nil {
			return err
		}
	}
	group := &loop.Group{Clients: clients.As(controllers.Program), Entries: f.entries(authorities), Select: words, Election: election}
	if len(words) == 0 {
		group.Entries = nil // an empty list runs none
	}
	return loop.Run(ctx, clients, group)
}

func (f *controllersFlags) entries(authorities []byte) []loop.Entry {
	entries := controllers.All(controllers.Options{RootCA: authorities})
	for i := range entries {
		for _, w := range f.workers {
			if w.loop == entries[i].Name && *w.n > 0 {
				entries[i] = withWorkers(entries[i], *w.n)
			}
		}
	}
	return entries
}

// loopOf returns the loop in a runner, or nil.
func loopOf(r loop.Runner) *loop.Loop {
	switch r := r.(type) {
	case *loop.Loop:
		return r
	case interface{ Loop() *loop.Loop }:
		return r.Loop()
	}
	return nil
}

// withWorkers makes a loop work on n keys at the same time.
func withWorkers(e loop.Entry, n int) loop.Entry {
	alone := e.New
	e.New = func(c *loop.Clients) (loop.Runner, error) {
		r, err := alone(c)
		if l := loopOf(r); l != nil {
			l.Workers = n
		}
		return r, err
	}
	return e
}
