package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
)

// start reads what a directory holds into the state, and returns the segment to go on with.
func (s *Store) start() (*segment, error) {
	if err := s.removeTemporary(); err != nil {
		return nil, err
	}
	snapshots, err := files(s.dir, snapshotSuffix)
	if err != nil {
		return nil, err
	}
	rev := store.Revision(1) // that of an empty store, as in etcd
	var newest *snapshotFile
	if n := len(snapshots); n > 0 {
		rev, snapshots = snapshots[n-1], snapshots[:n-1]
		if newest, err = s.readSnapshot(rev); err != nil {
			return nil, err
		}
	}
	if err := s.openPast(snapshots, newest); err != nil {
		return nil, err
	}
	segments, err := files(s.dir, segmentSuffix)
	if err != nil {
		return nil, err
	}
	needed := rev
	if s.keepsPast() {
		needed = min(rev, s.past.base) // from there on the past needs it
	}
	for i, first := range segments {
		last := i == len(segments)-1
		if !last && segments[i+1] <= needed+1 {
			continue // the snapshot has all of it
		}
		if first > rev+1 {
			return nil, fmt.Errorf("%s begins at revision %d, but the changes from %d on are missing",
				fileName(first, segmentSuffix), first, rev+1)
		}
		open, err := s.replay(first, &rev, last)
		if err != nil && !last && segments[i+1] <= rev+1 {
			s.options.Logger.Error("changes cannot be read: the history begins after them", "dir", s.options.Dir, "err", err)
			continue // the snapshot has all of it
		}
		if err != nil || last {
			return open, err
		}
	}
	return newSegment(s.dir, rev+1, s.options.SegmentBytes)
}

// lastChange returns when the last change was made, or the zero time if that is not known.
func (s *Store) lastChange() time.Time {
	p := &s.past
	if n := len(p.recent); n > 0 {
		return timeAt(p.recent[n-1].time)
	}
	if n := len(p.archives); n > 0 {
		a := p.archives[n-1]
		return a.changes[len(a.changes)-1].time // that of its last record, which is near enough
	}
	return time.Time{}
}

func (s *Store) removeTemporary() error {
	all, err := s.dir.names()
	for _, name := range all {
		if strings.HasSuffix(name, temporarySuffix) {
			err = errors.Join(err, s.dir.remove(name))
		}
	}
	return err
}

// replay applies the changes of a segment after rev, and advances it. Only the last segment may end in the middle of a
// group, and is returned to be written to.
func (s *Store) replay(first store.Revision, rev *store.Revision, last bool) (*segment, error) {
	name := fileName(first, segmentSuffix)
	f, err := s.dir.open(name)
	if err != nil {
		return nil, err
	}
	open := &segment{source: &source{file: f, name: name}}
	s.sources.add(open.source)
	if err := s.replayFile(open, rev, last); err != nil {
		return nil, fmt.Errorf("%s, %w", name, err)
	}
	return open, nil
}

func (s *Store) replayFile(open *segment, rev *store.Revision, last bool) (err error) {
	f := open.file
	if open.size, err = f.size(); err != nil {
		return err
	}
	b := make([]byte, open.size)
	if n, err := f.ReadAt(b, 0); err != nil && !(err == io.EOF && n == len(b)) {
		return err
	}
	if open.salt, err = readHead(b); err != nil {
		return err
	}
	end, err := s.replayGroups(b, open.source, rev, last)
	if err != nil {
		return fmt.Errorf("record at byte %d: %w", end, err)
	}
	open.at = int64(end)
	s.appended += open.at
	if last {
		err = open.erase(int64(end + written(b[end:])))
	}
	return err
}

// replayGroups applies the groups of a segment, and returns where they end.
func (s *Store) replayGroups(b []byte, from *source, rev *store.Revision, last bool) (at int, err error) {
	for at = headBytes; ; {
		group, changes, spans, err := s.codec.readGroup(b[at:], from.salt)
		if err != nil {
			rest := b[at : at+written(b[at:])]
			if last && !s.codec.anyGroupIn(rest, from.salt, *rev+1) || errors.Is(err, errEnd) && len(rest) == 0 {
				return at, nil // nothing follows, or what was cut off while it was written, and never acknowledged
			}
			return at, fmt.Errorf("%w, and it was acknowledged", errBroken)
		}
		if err := s.take(group, changes, placesOf(from, int64(at), spans), rev); err != nil {
			return at, err
		}
		end := spans[len(spans)-1]
		at += end.offset + end.length
	}
}

// readGroup reads the records of one group.
func (c *codec) readGroup(b []byte, salt salt) (group store.Revision, changes []change, spans []span, err error) {
	for length := 0; ; {
		r, n, err := c.read(b[length:], salt)
		if err != nil {
			return 0, nil, nil, err
		}
		if group != 0 && r.group != group {
			return 0, nil, nil, errBroken
		}
		group, changes = r.group, append(changes, r.changes...)
		spans = append(spans, span{length, n, len(r.changes)})
		length += n
		if r.last {
			return group, changes, spans, nil
		}
	}
}

// take applies the changes of a group, as far as the state does not have them.
func (s *Store) take(group store.Revision, changes []change, places []memory.Place, rev *store.Revision) error {
	s.remember(changes, places)
	var missing []memory.Change
	for i, c := range changes {
		switch {
		case c.revision != group+store.Revision(i):
			return fmt.Errorf("%w: change %d after %d has revision %d", errBroken, i, group, c.revision)
		case c.revision <= *rev:
			continue
		case c.revision != *rev+1:
			return fmt.Errorf("%w: revision %d after %d", errBroken, c.revision, *rev)
		}
		*rev = c.revision
		missing = append(missing, memory.Change{
			Key: c.key, Value: bytes.Clone(c.value), Deleted: c.deleted, Expires: c.expires, Place: places[i],
		})
	}
	return s.state.Apply(missing)
}

// anyGroupIn reports whether a whole record of a group after the given one is somewhere. Then the given group, which is
// broken, was acknowledged.
func (c *codec) anyGroupIn(b []byte, salt salt, group store.Revision) bool {
	for at := range b {
		if _, _, err := bodyLength(b[at:], salt); err != nil {
			continue
		}
		if r, _, err := c.read(b[at:], salt); err == nil && r.group > group {
			return true
		}
	}
	return false
}

// written returns where the zeros at the end of b begin, or a little later.
func written(b []byte) int {
	var zeros [4096]byte
	n := len(b)
	for n > 0 {
		start := max(n-len(zeros), 0)
		if !bytes.Equal(b[start:n], zeros[:n-start]) {
			return n
		}
		n = start
	}
	return 0
}
