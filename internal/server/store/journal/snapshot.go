package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace/millrace/internal/durable"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
)

// chunk is how many bytes of entries one record of a snapshot has.
const chunk = 1 << 20

// snapshots makes a snapshot whenever the log has grown enough, until ctx ends.
func (s *Store) snapshots(ctx context.Context) {
	for {
		select {
		case <-s.grown:
		case <-ctx.Done():
			return
		}
		if err := s.snapshot(ctx); err != nil && ctx.Err() == nil {
			s.options.Logger.Warn("no snapshot can be made; the log goes on growing", "dir", s.options.Dir, "err", err)
		}
	}
}

// snapshot writes the present state to a file of its own, and removes what it makes superfluous.
func (s *Store) snapshot(ctx context.Context) error {
	temporary := filepath.Join(s.options.Dir, "snapshot"+temporarySuffix)
	rev, err := s.writeSnapshot(ctx, temporary)
	if err == nil {
		err = os.Rename(temporary, filepath.Join(s.options.Dir, fileName(rev, snapshotSuffix)))
	}
	if err == nil {
		err = durable.SyncDirectory(s.options.Dir)
	}
	if err != nil {
		_ = os.Remove(temporary) // the first error counts; a start removes it, too
		return err
	}
	return s.removeBefore(rev)
}

// writeSnapshot writes all entries, and a change without a key at the end, by which a reader knows that it has all.
func (s *Store) writeSnapshot(ctx context.Context, path string) (rev store.Revision, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := &snapshotWriter{file: f, codec: newCodec(), expires: make(map[string]time.Time)}
	defer w.codec.close()
	err = s.state.Each(ctx, func(now store.Revision) error {
		rev = now
		s.state.Expiring(func(key string, at time.Time) { w.expires[key] = at })
		_, err := f.WriteString(magic)
		return err
	}, w.add)
	if err != nil {
		return 0, err
	}
	w.entries = append(w.entries, change{revision: rev})
	if err := w.flush(); err != nil {
		return 0, err
	}
	return rev, f.Sync()
}

// snapshotWriter collects entries to records.
type snapshotWriter struct {
	file    *os.File
	codec   *codec
	expires map[string]time.Time
	entries []change
	size    int
	record  []byte
}

func (w *snapshotWriter) add(e store.Entry) error {
	w.entries = append(w.entries, change{key: e.Key, value: e.Value, revision: e.Revision, expires: w.expires[e.Key]})
	if w.size += len(e.Key) + len(e.Value); w.size < chunk {
		return nil
	}
	return w.flush()
}

func (w *snapshotWriter) flush() error {
	w.record = w.codec.append(w.record[:0], w.entries)
	w.entries, w.size = w.entries[:0], 0
	_, err := w.file.Write(w.record)
	return err
}

// readSnapshot restores the state of a snapshot.
func (s *Store) readSnapshot(rev store.Revision) error {
	path := filepath.Join(s.options.Dir, fileName(rev, snapshotSuffix))
	b, err := readFile(path)
	if err != nil {
		return err
	}
	var entries []memory.Restored
	for at := len(magic); ; {
		changes, n, err := s.codec.read(b[at:])
		if err != nil { // also at its end, which must not come before the last record
			return fmt.Errorf("%s, record at byte %d: %w", path, at, err)
		}
		at += n
		for _, c := range changes {
			if c.key == "" && c.revision == rev {
				s.state.Restore(entries, rev)
				return nil
			}
			e := store.Entry{Key: c.key, Value: bytes.Clone(c.value), Revision: c.revision}
			entries = append(entries, memory.Restored{Entry: e, Expires: c.expires})
		}
	}
}

// removeBefore removes the snapshots before rev, and the segments whose changes are all at or before it.
func (s *Store) removeBefore(rev store.Revision) error {
	snapshots, err := files(s.options.Dir, snapshotSuffix)
	if err != nil {
		return err
	}
	for _, old := range snapshots {
		if old < rev {
			err = errors.Join(err, os.Remove(filepath.Join(s.options.Dir, fileName(old, snapshotSuffix))))
		}
	}
	segments, listed := files(s.options.Dir, segmentSuffix)
	err = errors.Join(err, listed)
	for i := range len(segments) - 1 {
		if segments[i+1] <= rev+1 {
			err = errors.Join(err, os.Remove(filepath.Join(s.options.Dir, fileName(segments[i], segmentSuffix))))
		}
	}
	return err
}
