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
	"github.com/millrace/millrace/internal/server/store/etcd"
	"github.com/millrace/millrace/internal/server/store/journal"
)

// progressEvery is how often a takeover tells how far it is.
const progressEvery = 2 * time.Second

// TakeOver moves the objects of an embedded etcd, in which earlier versions kept them, into the log: once. The database
// stays beside it under another name. Events live as long as Life says. A takeover that was cut off begins anew.
func TakeOver(ctx context.Context, data string, events time.Duration, log *slog.Logger) error {
	database := filepath.Join(data, "etcd")
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
	from, err := etcd.Embed(ctx, etcd.EmbedOptions{Dir: database, Logger: log})
	if err != nil {
		return err
	}
	if there { // an earlier takeover lacks its last step, or an earlier version has gone on with the database
		return errors.Join(older(ctx, from, data), from.Close())
	}
	told := time.Now()
	err = journal.Adopt(ctx, Log(data), journal.Adoption{From: from, Prefix: "/", Life: Life(events), Told: func(done, left int64) {
		if time.Since(told) > progressEvery {
			told = time.Now()
			log.Warn("taking over objects from the database of an earlier version", "objects", done, "left", left)
		}
	}})
	return errors.Join(err, from.Close())
}

// older returns an error if a database has changes that the log lacks.
func older(ctx context.Context, database store.Store, data string) error {
	log, err := Open(data)
	if err != nil {
		return err
	}
	has, err := log.Revision(ctx)
	old, unknown := database.Revision(ctx)
	if err = errors.Join(err, unknown, log.Close()); err == nil && old > has {
		err = fmt.Errorf("it was written to after the log in %s was made: move one of them away", Log(data))
	}
	return err
}
