package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
)

// start reads what a directory holds into the state, and returns the segment to go on with.
func (s *Store) start() (*segment, error) {
	if err := s.removeTemporary(); err != nil {
		return nil, err
	}
	snapshots, err := files(s.options.Dir, snapshotSuffix)
	if err != nil {
		return nil, err
	}
	rev := store.Revision(1) // that of an empty store, as in etcd
	if n := len(snapshots); n > 0 {
		rev = snapshots[n-1]
		if err := s.readSnapshot(rev); err != nil {
			return nil, err
		}
	}
	segments, err := files(s.options.Dir, segmentSuffix)
	if err != nil {
		return nil, err
	}
	for i, first := range segments {
		last := i == len(segments)-1
		if !last && segments[i+1] <= rev+1 {
			continue // the snapshot has all of it
		}
		if first > rev+1 {
			return nil, fmt.Errorf("%s begins at revision %d, but the changes from %d on are missing", fileName(first, segmentSuffix), first, rev+1)
		}
		open, err := s.replay(first, &rev, last)
		if err != nil || last {
			return open, err
		}
	}
	return newSegment(s.options.Dir, rev+1, s.options.SegmentBytes)
}

func (s *Store) removeTemporary() error {
	all, err := filepath.Glob(filepath.Join(s.options.Dir, "*"+temporarySuffix))
	for _, path := range all {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// replay applies the changes of a segment after rev, and advances it. Only the last segment may end in the middle of a
// record, and is returned to be written to.
func (s *Store) replay(first store.Revision, rev *store.Revision, last bool) (*segment, error) {
	path := filepath.Join(s.options.Dir, fileName(first, segmentSuffix))
	b, err := readFile(path)
	if err != nil {
		return nil, err
	}
	at := len(magic)
	for {
		changes, n, err := s.codec.read(b[at:])
		if errors.Is(err, errBroken) && last && !s.anyRecordIn(b[at+1:], *rev) {
			err = errEnd // it was cut off while it was written, and never acknowledged
		}
		if errors.Is(err, errEnd) {
			break
		}
		if err == nil {
			err = s.take(changes, rev)
		}
		if err != nil {
			return nil, fmt.Errorf("%s, record at byte %d: %w", path, at, err)
		}
		at += n
	}
	if !last {
		return nil, nil
	}
	return openSegment(path, int64(at), s.options.SegmentBytes)
}

// take applies the changes of a record, as far as the state does not have them.
func (s *Store) take(changes []change, rev *store.Revision) error {
	var missing []memory.Change
	for _, c := range changes {
		switch {
		case c.revision <= *rev:
			continue
		case c.revision != *rev+1:
			return fmt.Errorf("%w: revision %d after %d", errBroken, c.revision, *rev)
		}
		*rev = c.revision
		missing = append(missing, memory.Change{Key: c.key, Value: bytes.Clone(c.value), Deleted: c.deleted, Expires: c.expires})
	}
	return s.state.Apply(missing)
}

// anyRecordIn reports whether a whole record follows somewhere, whose changes come after rev. Then the broken one
// before it was acknowledged.
func (s *Store) anyRecordIn(b []byte, rev store.Revision) bool {
	for at := range b {
		if changes, _, err := s.codec.read(b[at:]); err == nil && len(changes) > 0 && changes[0].revision > rev {
			return true
		}
	}
	return false
}

func readFile(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(b, []byte(magic)) {
		return nil, fmt.Errorf("%s is no file of this store, or of another version of it", path)
	}
	return b, nil
}
