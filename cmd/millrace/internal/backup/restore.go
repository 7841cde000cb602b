package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/cmd/millrace/internal/serving"
	"github.com/millrace/millrace/internal/durable"
	"github.com/millrace/millrace/internal/server/datadir"
	"github.com/millrace/millrace/internal/server/past"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/journal"
)

// RestoreCommand is `millrace restore`.
func RestoreCommand() *cobra.Command {
	var data, at string
	c := &cobra.Command{
		Use: "restore DIR", Args: cobra.ExactArgs(1),
		Short: "Make a data directory from a backup, as it is or as it was at a moment",
		Long: "Make a new data directory from a backup, or from any data directory that no server uses. With --at it has the state of a\n" +
			"moment: a revision (1234), a time (2026-11-29T12:00:00Z), or how long ago (10m); its history begins there, and it\n" +
			"has no control planes inside. To restore into an etcd cluster, restore into a directory first, and then use `millrace data export`.",
		Example: "  millrace restore /mnt/backup --data /var/lib/millrace\n  millrace restore /mnt/backup --data /tmp/before --at 10m",
		RunE: flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
			return restore(ctx, c.OutOrStdout(), c.Flags().Arg(0), data, at)
		}),
	}
	c.Flags().StringVar(&data, "data", serving.DefaultData(), "data directory to make")
	c.Flags().StringVar(&at, "at", "", "the moment; by default the newest")
	return c
}

func restore(ctx context.Context, out io.Writer, from, data, at string) error {
	if err := datadir.Vacant(data); err != nil {
		return err
	}
	if at == "" {
		return restoreAll(ctx, out, from, data)
	}
	s, err := datadir.Open(from)
	if err != nil {
		return err
	}
	rev, err := restoreAt(ctx, out, s, data, at)
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	if err := copyKeys(from, data); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s is what %s was at revision %d.\n", data, from, rev)
	return err
}

// restoreAll copies everything. The log has its name when it is whole.
func restoreAll(ctx context.Context, out io.Writer, from, data string) error {
	c := &copying{data: from, to: data, log: datadir.Log(data) + ".new", out: out}
	if err := c.run(ctx, time.Second, true); err != nil {
		return err
	}
	if err := os.Rename(c.log, datadir.Log(data)); err != nil {
		return err
	}
	return durable.SyncDirectory(data)
}

// restoreAt makes a log that begins with a past state.
func restoreAt(ctx context.Context, out io.Writer, s store.Store, data, at string) (store.Revision, error) {
	rev, err := past.New(past.Options{Store: s}).Resolve(ctx, at)
	if err != nil {
		return 0, err
	}
	last := time.Now()
	return rev, journal.Adopt(ctx, datadir.Log(data), journal.Adoption{
		From: stateAt{s, rev}, Prefix: registry.Root, Life: datadir.Life(0), Told: func(done, left int64) {
			if time.Since(last) > progressEvery {
				last = time.Now()
				fmt.Fprintf(out, "%d of %d objects restored\n", done, done+left)
			}
		},
	})
}

// progressEvery is how often a long work tells how far it is.
const progressEvery = 2 * time.Second

// stateAt lists a store as it was.
type stateAt struct {
	of  store.Store
	rev store.Revision
}

// List implements journal.Lister.
func (s stateAt) List(ctx context.Context, prefix string, o store.ListOptions) (store.Page, error) {
	o.Revision = s.rev
	return s.of.List(ctx, prefix, o)
}
