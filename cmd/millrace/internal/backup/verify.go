package backup

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/cmd/millrace/internal/serving"
	"github.com/millrace/millrace/internal/server/datadir"
	"github.com/millrace/millrace/internal/server/store/journal"
)

// VerifyCommand is `millrace verify`.
func VerifyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "verify [DIR]", Args: cobra.MaximumNArgs(1),
		Short: "Read all of a data directory or a backup, and say what cannot be read",
		Long: "Read all snapshots, archives and segments of a data directory or a backup (default: the data directory), also while a server\n" +
			"works with it, and compare their checksums. Nothing is changed. If something cannot be read, the exit code is 1.",
		RunE: flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
			data := serving.DefaultData()
			if c.Flags().NArg() > 0 {
				data = c.Flags().Arg(0)
			}
			return verify(ctx, c, data)
		}),
	}
}

func verify(ctx context.Context, c *cobra.Command, data string) error {
	dir := datadir.Log(data)
	if there, err := journal.Exists(dir); err != nil || !there {
		return fmt.Errorf("there is no log in %s: name a data directory or a backup", dir)
	}
	last := time.Now()
	found, err := journal.Verify(ctx, dir, func(done, of int) {
		if time.Since(last) > progressEvery {
			last = time.Now()
			fmt.Fprintf(c.OutOrStdout(), "%d of %d files read\n", done, of)
		}
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "%d changes, of revisions %d to %d; %d snapshots, %d archives, %d segments; %.1f MiB\n",
		found.Changes, found.Oldest, found.Newest, found.Snapshots, found.Archives, found.Segments, float64(found.Bytes)/(1<<20))
	for _, err := range found.Broken {
		fmt.Fprintln(c.OutOrStdout(), "broken:", err)
	}
	if n := len(found.Broken); n > 0 {
		return fmt.Errorf("%d files cannot be read", n)
	}
	return nil
}
