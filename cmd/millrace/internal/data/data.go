// Package data is `millrace data`: what a data directory has, and its way to an etcd cluster and back.
package data

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/cmd/millrace/internal/serving"
	"github.com/millrace/millrace/internal/server/datadir"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/etcd"
	"github.com/millrace/millrace/internal/server/store/journal"
)

const (
	pageSize = 500
	// progressEvery is how often a move tells how far it is.
	progressEvery = 2 * time.Second
)

// Command returns the command with its parts.
func Command() *cobra.Command {
	c := &cobra.Command{Use: "data", Short: "Read the data of a cluster that is not running, or move it to an etcd cluster and back"}
	c.AddCommand(getCommand(), exportCommand(), importCommand())
	return c
}

// dataFlag adds the flag of the directory.
func dataFlag(c *cobra.Command, data *string) {
	c.Flags().StringVar(data, "data", serving.DefaultData(), "directory that stores the cluster")
}

func getCommand() *cobra.Command {
	var data string
	var keysOnly bool
	c := &cobra.Command{
		Use: "get [PREFIX]", Args: cobra.MaximumNArgs(1),
		Short: "Print the keys and values that begin with a prefix (default " + registry.Root + "), as etcdctl get --prefix does",
		Long: "Print the keys and values that begin with a prefix (default " + registry.Root + "), as etcdctl get --prefix does: each on a line,\n" +
			"values in the form in which they are stored.",
		RunE: flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
			prefix := registry.Root
			if c.Flags().NArg() > 0 {
				prefix = c.Flags().Arg(0)
			}
			return get(ctx, c.OutOrStdout(), data, prefix, keysOnly)
		}),
	}
	dataFlag(c, &data)
	c.Flags().BoolVar(&keysOnly, "keys-only", false, "print no values")
	return c
}

func get(ctx context.Context, w io.Writer, data, prefix string, keysOnly bool) (err error) {
	s, err := datadir.Open(data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	out := bufio.NewWriter(w)
	err = each(ctx, s, prefix, func(e store.Entry, _ int64) error {
		_, err := fmt.Fprintf(out, "%s\n", e.Key)
		if err == nil && !keysOnly {
			_, err = fmt.Fprintf(out, "%s\n", e.Value)
		}
		return err
	})
	return errors.Join(err, out.Flush())
}

func exportCommand() *cobra.Command {
	var data string
	var servers flags.Etcd
	c := &cobra.Command{
		Use: "export --etcd-servers URLS", Args: cobra.NoArgs,
		Short: "Copy a data directory's objects into an empty etcd cluster",
		Long: "Copy a data directory's objects into an empty etcd cluster, for several servers. Resource versions begin anew, so informers list\n" +
			"again. Keys and certificates stay in the directory \"pki\" of the data directory: give it to the servers with --keys.",
		RunE: flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
			return export(ctx, c.ErrOrStderr(), data, servers)
		}),
	}
	dataFlag(c, &data)
	servers.Add(c, "required")
	return c
}

func export(ctx context.Context, out io.Writer, data string, servers flags.Etcd) (err error) {
	to, err := dial(ctx, out, servers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	from, err := datadir.Open(data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	there, err := to.List(ctx, registry.Root, store.ListOptions{Limit: 1, Uncounted: true})
	if err != nil {
		return err
	}
	if len(there.Entries) > 0 {
		return fmt.Errorf("the etcd cluster has objects already, such as %s: nothing was copied", there.Entries[0].Key)
	}
	life, p := datadir.Life(0), newProgress(out)
	err = each(ctx, from, registry.Root, func(e store.Entry, left int64) error {
		if _, err := to.Create(ctx, e.Key, e.Value, life(e.Key)); err != nil {
			return fmt.Errorf("%s: %w: the etcd cluster has a part of the objects now", e.Key, err)
		}
		p.tell(p.done+1, left)
		return nil
	})
	return p.end(err)
}

func importCommand() *cobra.Command {
	var data string
	var servers flags.Etcd
	c := &cobra.Command{
		Use: "import --etcd-servers URLS", Args: cobra.NoArgs,
		Short: "Copy the objects of an etcd cluster into a new data directory, with their resource versions",
		Long: "Copy the objects of an etcd cluster, also one of kube-apiservers, into a new data directory, with their resource versions. End the\n" +
			"servers first: what they write meanwhile is not copied. Put the cluster's keys and certificates into the directory \"pki\" of\n" +
			"the data directory, or name their directory with --keys, or pods' tokens become invalid.",
		RunE: flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
			return importAll(ctx, c.ErrOrStderr(), data, servers)
		}),
	}
	dataFlag(c, &data)
	servers.Add(c, "required")
	return c
}

func importAll(ctx context.Context, out io.Writer, data string, servers flags.Etcd) (err error) {
	from, err := dial(ctx, out, servers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	p := newProgress(out)
	return p.end(journal.Adopt(ctx, datadir.Log(data), journal.Adoption{From: from, Prefix: registry.Root, Life: datadir.Life(0), Told: p.tell}))
}

func dial(ctx context.Context, out io.Writer, f flags.Etcd) (*etcd.Store, error) {
	if len(f.Servers) == 0 {
		return nil, errors.New("name the etcd cluster with --etcd-servers")
	}
	return etcd.Dial(ctx, etcd.Options{
		Endpoints: f.Servers, CertFile: f.CertFile, KeyFile: f.KeyFile, CAFile: f.CAFile, DialTimeout: f.StartTimeout,
		Logger: slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
}

// each visits all entries below a prefix, as of one revision.
func each(ctx context.Context, s store.Store, prefix string, visit func(e store.Entry, left int64) error) error {
	for o := (store.ListOptions{Limit: pageSize}); ; {
		page, err := s.List(ctx, prefix, o)
		if err != nil {
			return err
		}
		for i, e := range page.Entries {
			if err := visit(e, page.Remaining+int64(len(page.Entries)-1-i)); err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
		o.From, o.Revision = page.Entries[len(page.Entries)-1].Key+"\x00", page.Revision
	}
}

// progress tells how far a move is.
type progress struct {
	out         io.Writer
	began, told time.Time
	done        int64
}

func newProgress(out io.Writer) *progress {
	return &progress{out: out, began: time.Now(), told: time.Now()}
}

func (p *progress) tell(done, left int64) {
	p.done = done
	if time.Since(p.told) > progressEvery {
		p.told = time.Now()
		fmt.Fprintf(p.out, "%d objects copied, %d left\n", done, left)
	}
}

// end tells that the move has ended, unless there is an error.
func (p *progress) end(err error) error {
	if err == nil {
		fmt.Fprintf(p.out, "%d objects copied in %v\n", p.done, time.Since(p.began).Round(time.Millisecond))
	}
	return err
}
