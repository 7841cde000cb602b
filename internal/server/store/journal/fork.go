package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace/millrace/internal/durable"
	"github.com/millrace/millrace/internal/server/store"
)

// Fork makes the log of another directory, which begins as this one was at a revision. The two share the files that do
// not change any more: these are linked, and each directory may remove its name of one. So a fork takes as long as a
// segment is to copy, however much there is.
//
// The changes between the last snapshot and the revision are the history of the fork. A revision before that snapshot
// is not in files of its own: then all objects are written, and the history of the fork begins with them. life is how
// long entries live in that case; see Adoption.
func (s *Store) Fork(ctx context.Context, dir string, rev store.Revision, life func(key string) time.Duration) (err error) {
	if now, err := s.Revision(ctx); err != nil || rev > now {
		return errors.Join(err, fmt.Errorf("revision %d: %w", rev, store.ErrFuture))
	}
	for range backupTries { // a snapshot may remove files meanwhile
		if err = s.fork(ctx, dir, rev, life); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return err
}

func (s *Store) fork(ctx context.Context, dir string, rev store.Revision, life func(key string) time.Duration) (err error) {
	snapshots, err := files(s.dir, snapshotSuffix)
	if err != nil {
		return err
	}
	newest := store.Revision(0)
	if n := len(snapshots); n > 0 {
		newest = snapshots[n-1]
	}
	if rev < newest {
		return Adopt(ctx, dir, Adoption{From: stateAt{s, rev}, Life: life, Told: func(int64, int64) {}})
	}
	lock, err := lockDirectory(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if there, err := Exists(dir); err != nil || there {
		return errors.Join(err, fmt.Errorf("there is a log in %s already", dir))
	}
	if newest > 0 {
		if err := s.link(dir, fileName(newest, snapshotSuffix)); err != nil {
			return err
		}
	}
	if err := s.forkSegments(dir, newest, rev); err != nil {
		return err
	}
	return durable.SyncDirectory(dir)
}

// forkSegments links or copies the segments that have the changes after one revision, up to another.
func (s *Store) forkSegments(dir string, after, rev store.Revision) error {
	segments, err := files(s.dir, segmentSuffix)
	if err != nil {
		return err
	}
	for i, first := range segments {
		last := i == len(segments)-1
		switch {
		case first > rev, !last && segments[i+1] <= after+1: // too new, or in the snapshot
			continue
		case !last && segments[i+1] <= rev+1:
			err = s.link(dir, fileName(first, segmentSuffix))
		default:
			err = s.copyUntil(dir, fileName(first, segmentSuffix), rev)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// link gives a file that does not change a name in another directory.
func (s *Store) link(dir, name string) error {
	return os.Link(filepath.Join(s.options.Dir, name), filepath.Join(dir, name))
}

// copyUntil copies the changes of a segment up to a revision.
func (s *Store) copyUntil(dir, name string, rev store.Revision) error {
	text, err := os.ReadFile(filepath.Join(s.options.Dir, name))
	if err != nil {
		return err
	}
	c := newDecoder()
	defer c.decoder.Close()
	reached, part := store.Revision(0), []change(nil)
	end, err := c.eachGroup(text, func(changes []change) error {
		if last := changes[len(changes)-1].revision; last <= rev {
			reached = last
			return nil
		}
		for _, one := range changes {
			if one.revision <= rev {
				part = append(part, one)
			}
		}
		return errReached
	})
	switch {
	case errors.Is(err, errReached):
	case end == 0, reached < rev && !errors.Is(err, errEnd): // what is being written is behind the revision
		return fmt.Errorf("%s, record at byte %d: %w", name, end, err)
	}
	text = text[:end:end]
	if len(part) > 0 {
		salt, err := readHead(text)
		if err != nil {
			return err
		}
		whole := newCodec()
		text = whole.append(text, salt, record{group: part[0].revision, changes: part, last: true})
		whole.close()
	}
	return durable.WriteFile(filepath.Join(dir, name), text, 0o600)
}

// errReached ends the reading of a segment.
var errReached = errors.New("the revision is reached")

// stateAt lists a store as it was.
type stateAt struct {
	*Store
	rev store.Revision
}

// List implements Lister.
func (s stateAt) List(ctx context.Context, prefix string, o store.ListOptions) (store.Page, error) {
	o.Revision = s.rev
	return s.Store.List(ctx, prefix, o)
}
