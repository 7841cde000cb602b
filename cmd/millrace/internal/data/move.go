package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/internal/server/store/etcd"
)

// progressEvery is how often a move tells how far it is.
const progressEvery = 2 * time.Second

// move is what export and import have in common: a data directory, an etcd cluster, and somebody who waits.
type move struct {
	data    string
	servers flags.Etcd
	out     io.Writer

	began, told time.Time
	done        int64
}

// add adds the flags of a move to a command, and makes the command run it.
func (m *move) add(c *cobra.Command, run func(context.Context) error) *cobra.Command {
	dataFlag(c, &m.data)
	m.servers.Add(c, "required")
	c.Args = cobra.NoArgs
	c.RunE = flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
		m.out, m.began, m.told = c.ErrOrStderr(), time.Now(), time.Now()
		if err := run(ctx); err != nil {
			return err
		}
		fmt.Fprintf(m.out, "%d objects copied in %v\n", m.done, time.Since(m.began).Round(time.Millisecond))
		return nil
	})
	return c
}

// dial connects to the etcd cluster.
func (m *move) dial(ctx context.Context) (*etcd.Store, error) {
	f := m.servers
	if len(f.Servers) == 0 {
		return nil, errors.New("name the etcd cluster with --etcd-servers")
	}
	return etcd.Dial(ctx, etcd.Options{
		Endpoints: f.Servers, CertFile: f.CertFile, KeyFile: f.KeyFile, CAFile: f.CAFile, DialTimeout: f.StartTimeout,
		Logger: slog.New(slog.NewTextHandler(m.out, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
}

// tell tells now and then how far the move is.
func (m *move) tell(format string, a ...any) {
	if time.Since(m.told) > progressEvery {
		m.told = time.Now()
		fmt.Fprintf(m.out, format+"\n", a...)
	}
}

// copied tells how many objects were copied, and how many are left.
func (m *move) copied(done, left int64) {
	m.done = done
	m.tell("%d objects copied, %d left", done, left)
}
