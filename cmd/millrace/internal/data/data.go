// Package data is `millrace data`: what a data directory has, and its way to an etcd cluster and back.
package data

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/cmd/millrace/internal/serving"
	"github.com/millrace/millrace/internal/server/datadir"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/store"
)

// pageSize is how many entries are read at once.
const pageSize = 500

// Command returns the command with its parts.
func Command() *cobra.Command {
	c := &cobra.Command{Use: "data", Short: "Read the data of a cluster that is not running, or move it to an etcd cluster and back"}
	c.AddCommand(getCommand(), exportCommand(), importCommand(), forgetCommand(), cleanUpCommand())
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
