package journal

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/millrace/millrace/internal/server/store"
)

// segment is the file to which records are appended.
type segment struct {
	*source
	at   int64 // where the next record goes
	size int64 // preallocated
}

// newSegment makes the segment that begins with a revision. If there is not enough space, the error is
// store.ErrNoSpace, and there is no file.
func newSegment(dir directory, first store.Revision, size int64) (*segment, error) {
	name := fileName(first, segmentSuffix)
	f, err := dir.create(name + temporarySuffix)
	if err != nil {
		return nil, spaceError(fmt.Errorf("make segment %s: %w", name, err))
	}
	s := &segment{source: &source{file: f, name: name}, at: int64(headBytes), size: size}
	if err = s.fill(); err == nil {
		err = dir.rename(name+temporarySuffix, name)
	}
	if err != nil {
		_, _ = f.Close(), dir.remove(name+temporarySuffix) // the first error counts
		return nil, spaceError(fmt.Errorf("make segment %s: %w", name, err))
	}
	if err := dir.sync(); err != nil { // whatever the reason is: nobody knows which names are on the disk
		_ = f.Close()
		return nil, fmt.Errorf("make segment %s: %w", name, err)
	}
	return s, nil
}

// fill gives a new segment its space and its head, and waits until both are on the disk.
func (s *segment) fill() error {
	if err := s.file.allocate(s.size); err != nil {
		return err
	}
	head, salt := newHead()
	s.salt = salt
	if _, err := s.file.WriteAt(head, 0); err != nil {
		return err
	}
	return s.file.sync()
}

// reserve is how many bytes at the end of a segment are for deletes on a full disk.
func reserve(size int64) int64 { return size / 16 }

// room reports whether a record fits in.
func (s *segment) room(bytes int, deletes bool) bool {
	end := s.size - reserve(s.size)
	if deletes {
		end = s.size
	}
	return s.at+int64(bytes) <= end
}

// write writes records. If the error is store.ErrNoSpace, nothing of them is there.
func (s *segment) write(records []byte) error {
	n, err := s.file.WriteAt(records, s.at)
	if err = spaceError(err); errors.Is(err, store.ErrNoSpace) {
		if erased := s.erase(s.at + int64(n)); erased != nil {
			return fmt.Errorf("erase a part of a record in %s: %w", s.name, erased)
		}
	}
	if err != nil {
		return fmt.Errorf("write to %s: %w", s.name, err)
	}
	s.at += int64(len(records))
	return nil
}

// sync waits until what was written is on the disk.
func (s *segment) sync() error {
	if err := s.file.syncData(); err != nil {
		return fmt.Errorf("sync %s: %w", s.name, err)
	}
	return nil
}

// erase overwrites with zeros, up to a place, what is behind the last record, so that nobody takes it for one.
func (s *segment) erase(to int64) error {
	if to <= s.at {
		return nil
	}
	if _, err := s.file.WriteAt(make([]byte, to-s.at), s.at); err != nil {
		return err
	}
	return s.file.sync()
}

func spaceError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", store.ErrNoSpace, err)
	}
	return err
}
