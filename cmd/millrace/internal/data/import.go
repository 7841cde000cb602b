package data

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/server/datadir"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/etcdfile"
	"github.com/millrace/millrace/internal/server/store/journal"
)

// importing is a move from an etcd cluster or a snapshot of one.
type importing struct {
	move
	snapshot string
	skipHash bool
}

func importCommand() *cobra.Command {
	i := &importing{}
	c := i.add(&cobra.Command{
		Use:   "import --etcd-servers URLS | --snapshot FILE",
		Short: "Copy the objects of an etcd cluster, or of a snapshot of one, into a new data directory, with their resource versions",
		Long: "Copy the objects of an etcd cluster, also one of kube-apiservers, into a new data directory, with their resource versions. End the\n" +
			"servers first: what they write meanwhile is not copied. Or copy those of a file that etcdctl snapshot save has made.\n" +
			"Put the cluster's keys and certificates into the directory \"pki\" of the data directory, or name their directory with --keys,\n" +
			"or pods' tokens become invalid.",
	}, i.run)
	c.Flags().StringVar(&i.snapshot, "snapshot", "", "file that etcdctl snapshot save has made, instead of an etcd cluster")
	c.Flags().BoolVar(&i.skipHash, "skip-hash-check", false, "do not check the snapshot's sum, which the copy of a database file lacks")
	c.MarkFlagsMutuallyExclusive("snapshot", "etcd-servers")
	return c
}

func (i *importing) run(ctx context.Context) (err error) {
	if err := datadir.Vacant(i.data); err != nil {
		return err
	}
	from, err := i.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	first, err := from.List(ctx, registry.Root, store.ListOptions{Limit: 1, Uncounted: true})
	if err != nil {
		return err
	}
	if len(first.Entries) == 0 {
		return fmt.Errorf("there are no objects of a cluster: no key begins with %s", registry.Root)
	}
	return journal.Adopt(ctx, datadir.Log(i.data), journal.Adoption{From: from, Prefix: registry.Root, Life: datadir.Life(0), Told: i.copied})
}

// source is what can be imported.
type source interface {
	journal.Lister
	io.Closer
}

func (i *importing) open(ctx context.Context) (source, error) {
	switch {
	case i.snapshot != "":
		return etcdfile.OpenSnapshot(ctx, i.snapshot, etcdfile.Options{SkipHashCheck: i.skipHash, Told: func(read, size int64) {
			i.tell("reading the snapshot: %d of %d MiB", read>>20, size>>20)
		}})
	case i.skipHash:
		return nil, errors.New("--skip-hash-check needs --snapshot")
	case len(i.servers.Servers) == 0:
		return nil, errors.New("name the etcd cluster with --etcd-servers, or a snapshot of one with --snapshot")
	}
	return i.dial(ctx)
}
