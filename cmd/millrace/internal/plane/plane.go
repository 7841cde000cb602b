// Package plane is `millrace plane`: the control planes that a cluster runs.
package plane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/internal/durable"
)

// Command is `millrace plane`.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use: "plane", Aliases: []string{"planes"},
		Short: "Make, fork, list and delete control planes that a cluster runs",
		Long: "A control plane is a whole cluster inside the process of another one, its host, which was started with --planes. It sleeps\n" +
			"when nobody asks it, is awake within a request, and can be forked at any moment that its history keeps. All commands are\n" +
			"also possible with kubectl: they write objects of the kind ControlPlane in the host.",
		Example: "  millrace up --planes\n  millrace plane create dev\n  millrace plane kubeconfig dev > dev.yaml\n  millrace plane fork dev try --at 10m",
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cluster := genericclioptions.NewConfigFlags(true)
	fl := c.PersistentFlags()
	cluster.KubeConfig = fl.String("kubeconfig", "", "kubeconfig of the host (default: $KUBECONFIG, ~/.kube/config, or that of the default data directory)")
	fl.StringVar(cluster.Context, "context", "", "context of the kubeconfig")
	c.AddCommand(createCommand(cluster), forkCommand(cluster), diffCommand(cluster), listCommand(cluster), kubeconfigCommand(cluster),
		sleepCommand(cluster), wakeCommand(cluster), deleteCommand(cluster))
	return c
}

// spec has the flags of a new plane.
type spec struct {
	nodes                    int
	paused                   bool
	sleepAfter, expiresAfter time.Duration
	requests, objects        int
	bytes                    string
	kubeconfig               string
}

func (s *spec) add(c *cobra.Command) {
	fl := c.Flags()
	fl.IntVar(&s.nodes, "nodes", 1, "number of hollow nodes")
	fl.BoolVar(&s.paused, "paused", false, "run neither loops nor a scheduler")
	fl.DurationVar(&s.sleepAfter, "sleep-after", 5*time.Minute, "close it after this time without a request, until the next one; 0 is never")
	fl.DurationVar(&s.expiresAfter, "expires-after", 0, "delete it after this time; 0 is never")
	fl.IntVar(&s.requests, "max-requests", 0, "limit of requests and watches at the same time; 0 is none")
	fl.IntVar(&s.objects, "max-objects", 0, "limit of objects; 0 is none")
	fl.StringVar(&s.bytes, "max-bytes", "", `limit of bytes on the disk, such as "100Mi"`)
	fl.StringVar(&s.kubeconfig, "write-kubeconfig", "", "write its kubeconfig to this file")
}

// fields returns the spec of a ControlPlane.
func (s *spec) fields() map[string]any {
	out := map[string]any{"nodes": int64(s.nodes), "sleepAfter": s.sleepAfter.String()}
	if s.paused {
		out["paused"] = true
	}
	if s.expiresAfter > 0 {
		out["expiresAfter"] = s.expiresAfter.String()
	}
	limits := map[string]any{}
	if s.requests > 0 {
		limits["requests"] = int64(s.requests)
	}
	if s.objects > 0 {
		limits["objects"] = int64(s.objects)
	}
	if s.bytes != "" {
		limits["bytes"] = s.bytes
	}
	if len(limits) > 0 {
		out["limits"] = limits
	}
	return out
}

func createCommand(f *genericclioptions.ConfigFlags) *cobra.Command {
	s := &spec{}
	c := &cobra.Command{Use: "create NAME", Args: cobra.ExactArgs(1), Short: "Make a control plane", Example: "  millrace plane create dev --nodes 3"}
	s.add(c)
	c.RunE = flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
		return produce(ctx, c, f, s, c.Flags().Arg(0), s.fields())
	})
	return c
}

func forkCommand(f *genericclioptions.ConfigFlags) *cobra.Command {
	s := &spec{}
	var at string
	var outward bool
	c := &cobra.Command{
		Use: "fork FROM NAME", Args: cobra.ExactArgs(2), Short: "Make a control plane as another one is, or was at a moment",
		Long: "Make a control plane with the objects of another one, as they are now or were at a moment: a revision (1234), a time\n" +
			"(2026-11-29T12:00:00Z), or how long ago (10m). The two share what is on the disk, and part there. The new one has keys of\n" +
			"its own: certificates and tokens of the other are worth nothing in it. It calls no webhooks, unless told to.",
		Example: "  millrace plane fork prod try --at 10m --paused",
	}
	s.add(c)
	c.Flags().StringVar(&at, "at", "", "the moment; by default now")
	c.Flags().BoolVar(&outward, "outward", false, "call webhooks and other API servers, as the objects say")
	c.RunE = flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
		if ago, err := time.ParseDuration(at); err == nil {
			at = time.Now().Add(-ago).Format(time.RFC3339Nano) // the moment of this command, not of the object
		}
		fields := s.fields()
		from := map[string]any{"name": c.Flags().Arg(0)}
		if at != "" {
			from["at"] = at
		}
		fields["from"], fields["outward"] = from, outward
		return produce(ctx, c, f, s, c.Flags().Arg(1), fields)
	})
	return c
}

// produce makes a plane, waits until it is ready, and says how to use it.
func produce(ctx context.Context, c *cobra.Command, f *genericclioptions.ConfigFlags, s *spec, name string, fields map[string]any) error {
	h, err := connect(f)
	if err != nil {
		return err
	}
	if err := h.create(ctx, name, fields); err != nil {
		return err
	}
	start := time.Now()
	if err := h.ready(ctx, name); err != nil {
		return fmt.Errorf("%w (it is tried again until it is deleted: millrace plane delete %s)", err, name)
	}
	out := c.OutOrStdout()
	fmt.Fprintf(out, "The control plane %s is ready after %v: %s\n", name, time.Since(start).Round(time.Millisecond), h.config.Host+"/clusters/"+name)
	if s.kubeconfig == "" {
		_, err = fmt.Fprintf(out, "  millrace plane kubeconfig %s > %s.yaml\n", name, name)
		return err
	}
	return h.writeKubeconfig(ctx, out, name, s.kubeconfig)
}

func kubeconfigCommand(f *genericclioptions.ConfigFlags) *cobra.Command {
	var to string
	c := &cobra.Command{
		Use: "kubeconfig NAME", Args: cobra.ExactArgs(1), Short: "Print the kubeconfig of a control plane's administrator",
		Example: "  millrace plane kubeconfig dev > dev.yaml\n  kubectl --kubeconfig dev.yaml get nodes",
	}
	c.Flags().StringVarP(&to, "output", "o", "", "file to write it to, which only its owner can read")
	c.RunE = connected(f, func(ctx context.Context, c *cobra.Command, h *host) error {
		return h.writeKubeconfig(ctx, c.OutOrStdout(), c.Flags().Arg(0), to)
	})
	return c
}

// writeKubeconfig writes a plane's kubeconfig to a file, or prints it.
func (h *host) writeKubeconfig(ctx context.Context, out io.Writer, name, to string) error {
	text, err := h.kubeconfig(ctx, name)
	if err != nil {
		return err
	}
	if to == "" {
		_, err := out.Write(text)
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if err := durable.WriteFile(to, text, 0o600); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "  kubectl --kubeconfig %s get nodes\n", to)
	return err
}

func listCommand(f *genericclioptions.ConfigFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Args: cobra.NoArgs, Short: "List control planes",
		RunE: connected(f, func(ctx context.Context, c *cobra.Command, h *host) error { return h.list(ctx, c.OutOrStdout()) }),
	}
}

// connected runs a command with a connection to the host.
func connected(f *genericclioptions.ConfigFlags, run func(context.Context, *cobra.Command, *host) error) func(*cobra.Command, []string) error {
	return flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
		h, err := connect(f)
		if err != nil {
			return err
		}
		return run(ctx, c, h)
	})
}

// onEach returns a command for one or more planes.
func onEach(f *genericclioptions.ConfigFlags, use, short, done string, do func(context.Context, *host, string) error) *cobra.Command {
	return &cobra.Command{
		Use: use + " NAME…", Args: cobra.MinimumNArgs(1), Short: short,
		RunE: connected(f, func(ctx context.Context, c *cobra.Command, h *host) error {
			var failed error
			for _, name := range c.Flags().Args() {
				if err := do(ctx, h, name); err != nil {
					failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
					continue
				}
				fmt.Fprintf(c.OutOrStdout(), "%s %s\n", name, done)
			}
			return failed
		}),
	}
}

func sleepCommand(f *genericclioptions.ConfigFlags) *cobra.Command {
	return onEach(f, "sleep", "Close control planes until the next request", "sleeps", func(ctx context.Context, h *host, name string) error { return h.sleep(ctx, name) })
}

func wakeCommand(f *genericclioptions.ConfigFlags) *cobra.Command {
	return onEach(f, "wake", "Start control planes that sleep", "is awake", func(ctx context.Context, h *host, name string) error { return h.wake(ctx, name) })
}

func deleteCommand(f *genericclioptions.ConfigFlags) *cobra.Command {
	return onEach(f, "delete", "Delete control planes, with all that they have", "is deleted", func(ctx context.Context, h *host, name string) error { return h.delete(ctx, name) })
}
