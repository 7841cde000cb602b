package data

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/internal/server/datadir"
	"github.com/millrace/millrace/internal/server/store/journal"
)

func forgetCommand() *cobra.Command {
	var data string
	var yes bool
	c := &cobra.Command{
		Use: "forget KEY", Args: cobra.ExactArgs(1),
		Short: "Remove what an object was from the history",
		Long: "Remove what an object was from the history of a cluster that is not running: its past versions, and who made them. That there\n" +
			"were changes stays known, and so does what it is now. Name it by its key, as millrace data get --keys-only prints it, such as\n" +
			"/registry/secrets/default/password. Backups are not changed.",
		RunE: flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
			return forget(ctx, c, data, c.Flags().Arg(0), yes)
		}),
	}
	dataFlag(c, &data)
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}

func forget(ctx context.Context, c *cobra.Command, data, key string, yes bool) error {
	if there, err := journal.Exists(datadir.Log(data)); err != nil || !there {
		return fmt.Errorf("there is no log in %s: name the data directory of a cluster", datadir.Log(data))
	}
	if !yes && !flags.Agreed(c.InOrStdin(), c.OutOrStdout(), "Remove the past of "+key+" from "+data+" for ever?") {
		_, err := fmt.Fprintln(c.OutOrStdout(), "Nothing was removed.")
		return err
	}
	n, err := journal.Forget(ctx, datadir.Log(data), key)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%d past versions of %s are forgotten.\n", n, key)
	return err
}
