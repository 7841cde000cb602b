package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/millrace/millrace/internal/durable"
	"github.com/millrace/millrace/internal/server/store"
)

const (
	magic           = "millrace log 1\n\x00" // of segments and of snapshots
	segmentSuffix   = ".log"
	snapshotSuffix  = ".snapshot"
	temporarySuffix = ".new"

	// reserved bytes at the end of a segment are for deletes on a full disk.
	reserved = 1 << 20
)

func fileName(rev store.Revision, suffix string) string { return fmt.Sprintf("%020d%s", rev, suffix) }

// files returns the revisions of a directory's files with a suffix, in ascending order.
func files(dir, suffix string) ([]store.Revision, error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var revs []store.Revision
	for _, f := range all {
		if name, ok := strings.CutSuffix(f.Name(), suffix); ok {
			if n, err := strconv.ParseInt(name, 10, 64); err == nil {
				revs = append(revs, store.Revision(n))
			}
		}
	}
	slices.Sort(revs)
	return revs, nil
}

// segment is the file to which records are appended.
type segment struct {
	file *os.File
	at   int64 // where the next record goes
	size int64 // preallocated
}

// newSegment makes the segment that begins with a revision. If there is not enough space, the error is
// store.ErrNoSpace, and there is no file.
func newSegment(dir string, first store.Revision, size int64) (*segment, error) {
	path := filepath.Join(dir, fileName(first, segmentSuffix))
	f, err := os.OpenFile(path+temporarySuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, spaceError(fmt.Errorf("make a segment: %w", err))
	}
	s := &segment{file: f, at: int64(len(magic)), size: size}
	if err := s.fill(); err == nil {
		err = os.Rename(path+temporarySuffix, path)
	}
	if err == nil {
		err = durable.SyncDirectory(dir)
	}
	if err != nil {
		_ = f.Close() // the first error counts
		_ = os.Remove(path + temporarySuffix)
		return nil, spaceError(fmt.Errorf("make segment %s: %w", path, err))
	}
	return s, nil
}

func (s *segment) fill() error {
	if err := allocate(s.file, s.size); err != nil {
		return err
	}
	if _, err := s.file.WriteAt([]byte(magic), 0); err != nil {
		return err
	}
	return s.file.Sync()
}

// openSegment opens a segment that has been read up to a place, to append to it. What is behind that place was never
// acknowledged, and is overwritten with zeros, so that a later reader does not take the rest of it for a record.
func openSegment(path string, at, size int64) (*segment, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err = f.Truncate(at); err == nil {
		if err = allocate(f, max(size, at)); err == nil {
			err = f.Sync()
		}
	}
	if err != nil && !errors.Is(err, syscall.ENOSPC) {
		_ = f.Close() // the first error counts
		return nil, fmt.Errorf("open segment %s: %w", path, err)
	}
	if err != nil { // a full disk: nothing fits in, and the next segment waits for space
		return &segment{file: f, at: at, size: at}, nil
	}
	return &segment{file: f, at: at, size: max(size, at)}, nil
}

// room reports whether a record fits in.
func (s *segment) room(bytes int, deletes bool) bool {
	end := s.size - reserved
	if deletes {
		end = s.size
	}
	return s.at+int64(bytes) <= end
}

// append writes a record and waits until it is on the disk.
func (s *segment) append(record []byte) error {
	if _, err := s.file.WriteAt(record, s.at); err != nil {
		return spaceError(fmt.Errorf("write to %s: %w", s.file.Name(), err))
	}
	if err := syncData(s.file); err != nil {
		return fmt.Errorf("sync %s: %w", s.file.Name(), err)
	}
	s.at += int64(len(record))
	return nil
}

func (s *segment) close() error { return s.file.Close() }

func spaceError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", store.ErrNoSpace, err)
	}
	return err
}
