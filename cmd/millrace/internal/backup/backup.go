// Package backup has the commands that keep a copy of a data directory, and bring it back: `millrace backup`, `restore`
// and `verify`.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/cmd/millrace/internal/serving"
	"github.com/millrace/millrace/internal/durable"
	"github.com/millrace/millrace/internal/server/datadir"
	"github.com/millrace/millrace/internal/server/store/journal"
	"github.com/millrace/millrace/internal/sleep"
)

// keys is the directory of keys and certificates in a data directory.
const keys = "pki"

// inner is the directory of the control planes that a cluster runs, in its data directory.
const inner = "planes"

// Command is `millrace backup`.
func Command() *cobra.Command {
	var data string
	var once bool
	var every time.Duration
	c := &cobra.Command{
		Use: "backup DIR", Args: cobra.ExactArgs(1),
		Short: "Keep a copy of a data directory up to date",
		Long: "Copy a data directory, also while a server works with it: the log with its history, and the keys and certificates; and\n" +
			"those of the control planes in it, which are not woken. Then go on and copy what is new, until Ctrl-C. The copy is a data\n" +
			"directory itself. It holds secrets and the keys of the cluster: keep it as safe as those. Encryption configurations are elsewhere, and not in it.",
		Example: "  millrace backup /mnt/backup\n  millrace backup /mnt/backup --once",
		RunE: flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
			if every <= 0 {
				return fmt.Errorf("--every %v is not more than 0", every)
			}
			to := c.Flags().Arg(0)
			b := &copying{data: data, to: to, log: datadir.Log(to), out: c.OutOrStdout()}
			return b.run(ctx, every, once)
		}),
	}
	c.Flags().StringVar(&data, "data", serving.DefaultData(), "data directory of the cluster")
	c.Flags().BoolVar(&once, "once", false, "copy once, and end")
	c.Flags().DurationVar(&every, "every", 10*time.Second, "time between two copies")
	return c
}

// copying keeps a copy up to date.
type copying struct {
	data, to string
	log      string // where the log goes
	out      io.Writer
}

func (b *copying) run(ctx context.Context, every time.Duration, once bool) (err error) {
	log, err := journal.OpenBackup(datadir.Log(b.data), b.log)
	if err != nil {
		return err
	}
	inside := &planeCopies{from: filepath.Join(b.data, inner), to: filepath.Join(b.to, inner), logs: map[string]*journal.Backup{}}
	defer func() { err = errors.Join(err, log.Close(), inside.close()) }()
	for {
		if err := copyKeys(b.data, b.to); err != nil {
			return err
		}
		written, err := log.Update()
		if err != nil {
			return fmt.Errorf("copy %s: %w", b.data, err)
		}
		more, err := inside.update()
		if written += more; err != nil {
			return fmt.Errorf("copy control planes of %s: %w", b.data, err)
		}
		if written > 0 || once {
			fmt.Fprintf(b.out, "%s: %.1f MiB copied to %s\n", time.Now().Format(time.TimeOnly), float64(written)/(1<<20), b.to)
		}
		if once || !sleep.For(ctx, every) {
			return nil
		}
	}
}

// copyKeys copies keys and certificates that have changed.
func copyKeys(data, to string) error {
	all, err := os.ReadDir(filepath.Join(data, keys))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // they are elsewhere
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(to, keys), 0o700)
	}
	for _, f := range all {
		if err == nil && f.Type().IsRegular() {
			err = copyKey(filepath.Join(data, keys, f.Name()), filepath.Join(to, keys, f.Name()))
		}
	}
	return err
}

func copyKey(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if there, err := os.ReadFile(to); err == nil && string(there) == string(text) {
		return nil
	}
	return durable.WriteFile(to, text, info.Mode().Perm())
}
