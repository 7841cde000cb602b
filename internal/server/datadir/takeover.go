package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace/millrace/internal/durable"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/etcdfile"
	"github.com/millrace/millrace/internal/server/store/journal"
)

// progressEvery is how often a takeover tells how far it is.
const progressEvery = 2 * time.Second

// Database is the directory of the embedded etcd in a data directory of an earlier version.
func Database(data string) string { return filepath.Join(data, "etcd") }

// TakeOver moves the objects of an embedded etcd, in which earlier versions kept them, into the log: once. Its files are
// read, also after a kill -9, and stay beside the log under another name. Events live as long as Life says. A takeover
// that was cut off begins anew.
func TakeOver(ctx context.Context, data string, events time.Duration, log *slog.Logger) error {
	database := Database(data)
	if _, err := os.Stat(database); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	kept := database + ".taken-over"
	if _, err := os.Stat(kept); err == nil {
		return fmt.Errorf("the objects of %s were taken over, and there are others in %s: move one of them away", kept, database)
	}
	if err := move(ctx, database, data, events, log); err != nil {
		return fmt.Errorf("take over the objects of the embedded etcd in %s: %w", database, err)
	}
	if err := os.Rename(database, kept); err != nil {
		return err
	}
	if err := durable.SyncDirectory(data); err != nil {
		return err
	}
	log.Warn("this cluster's objects are in a log now; the database of before is kept and no longer needed", "log", Log(data), "database", kept)
	return nil
}

func move(ctx context.Context, database, data string, events time.Duration, log *slog.Logger) error {
	there, err := journal.Exists(Log(data))
	if err != nil {
		return err
	}
	told := time.Now()
	tell := func(message string, values ...any) {
		if time.Since(told) > progressEvery {
			told = time.Now()
			log.Warn(message, values...)
		}
	}
	from, err := etcdfile.Open(ctx, database, etcdfile.Options{Told: func(read, size int64) {
		tell("reading the database of an earlier version", "MiB", read>>20, "of", size>>20)
	}})
	if err != nil {
		return err
	}
	if there { // an earlier takeover lacks its last step, or an earlier version has gone on with the database
		return errors.Join(older(ctx, from.Revision(), data), from.Close())
	}
	err = journal.Adopt(ctx, Log(data), journal.Adoption{From: from, Prefix: "/", Life: Life(events), Told: func(done, left int64) {
		tell("taking over objects from the database of an earlier version", "objects", done, "left", left)
	}})
	return errors.Join(err, from.Close())
}

// older returns an error if a database has changes that the log lacks.
func older(ctx context.Context, database store.Revision, data string) error {
	log, err := Open(data)
	if err != nil {
		return err
	}
	has, err := log.Revision(ctx)
	if err = errors.Join(err, log.Close()); err == nil && database > has {
		err = fmt.Errorf("it was written to after the log in %s was made: move one of them away", Log(data))
	}
	return err
}
