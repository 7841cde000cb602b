package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// beginningFile is in a directory whose store begins: what else is there, nobody relies on.
const beginningFile = "beginning"

// begin lets the first writes of an empty directory not wait for the disk. If an earlier store ended while it began,
// what it has left is removed: nobody was told of it, and it need not be whole.
func (s *Store) begin() error {
	names, err := s.dir.names()
	if err != nil {
		return err
	}
	if slices.Contains(names, beginningFile) {
		if err := s.removeAll(names); err != nil {
			return err
		}
		names = nil
	}
	if !s.options.Begins || slices.ContainsFunc(names, isOurs) {
		return nil
	}
	f, err := s.dir.create(beginningFile)
	if err != nil {
		return fmt.Errorf("begin a log: %w", spaceError(err))
	}
	s.begins = true
	return errors.Join(f.Close(), s.dir.sync())
}

func isOurs(name string) bool {
	return strings.HasSuffix(name, snapshotSuffix) || strings.HasSuffix(name, segmentSuffix) || strings.HasSuffix(name, archiveSuffix)
}

// removeAll removes the files of a store that began, and then what says so.
func (s *Store) removeAll(names []string) error {
	var err error
	for _, name := range names {
		if isOurs(name) {
			err = errors.Join(err, s.dir.remove(name))
		}
	}
	if err = errors.Join(err, s.dir.sync()); err != nil {
		return err
	}
	return errors.Join(s.dir.remove(beginningFile), s.dir.sync())
}

// errBegun says that there is nothing to write.
var errBegun = errors.New("the store has begun")

// Begun ends the time in which writes do not wait for the disk: when it returns, all writes that were answered are
// there.
func (s *Store) Begun(ctx context.Context) error {
	w := newWrite("")
	w.check = func() error { // called by the committer, which alone writes to the segment
		if err := s.endBeginning(); err != nil {
			s.lose(err)
			return err
		}
		return errBegun
	}
	if err := s.enqueue(w); err != nil {
		return err
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if errors.Is(w.err, errBegun) {
		return nil
	}
	return w.err
}

func (s *Store) endBeginning() error {
	if !s.begins {
		return nil
	}
	if err := s.segment.sync(); err != nil {
		return err
	}
	s.begins = false
	return errors.Join(s.dir.remove(beginningFile), s.dir.sync())
}

// append writes records to the segment. While the store begins they are synced only when the segment ends.
func (s *Store) append(records []byte) error {
	if err := s.segment.write(records); err != nil || s.begins {
		return err
	}
	return s.segment.sync()
}
