package data

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/server/datadir"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/store"
)

func exportCommand() *cobra.Command {
	m := &move{}
	return m.add(&cobra.Command{
		Use:   "export --etcd-servers URLS",
		Short: "Copy a data directory's objects into an empty etcd cluster",
		Long: "Copy a data directory's objects into an empty etcd cluster, for several servers. Resource versions begin anew, so informers list\n" +
			"again. Keys and certificates stay in the directory \"pki\" of the data directory: give it to the servers with --keys.",
	}, m.export)
}

func (m *move) export(ctx context.Context) (err error) {
	to, err := m.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	from, err := datadir.Open(m.data)
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
	life := datadir.Life(0)
	return each(ctx, from, registry.Root, func(e store.Entry, left int64) error {
		if _, err := to.Create(ctx, e.Key, e.Value, life(e.Key)); err != nil {
			return fmt.Errorf("%s: %w: the etcd cluster has a part of the objects now", e.Key, err)
		}
		m.copied(m.done+1, left)
		return nil
	})
}
