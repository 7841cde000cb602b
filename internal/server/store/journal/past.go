package journal

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
)

// History bounds the past that a store keeps: the changes that are over, and states from which those after them can be
// found. The zero value keeps none.
type History struct {
	// Age is how long a change is kept, at least, as long as there is space.
	Age time.Duration
	// Bytes is how much space the past may have on the disk.
	Bytes int64
}

// Everything keeps what there is: for those who only look into a directory.
var Everything = History{Age: math.MaxInt64, Bytes: math.MaxInt64}

func (h History) kept() bool { return h.Age > 0 && h.Bytes > 0 }

// past is what is known of changes that are over. A state at a revision is that of the last snapshot before it, and the
// changes between the two.
type past struct {
	mu        sync.RWMutex
	snapshots []*snapshotFile // by revision
	archives  []*archive      // by revision, without a gap
	recent    []recentChange  // the changes after the archives, without a gap
	base      store.Revision  // the revision before the first of recent
}

// snapshotFile is a snapshot from which the past is read.
type snapshotFile struct {
	*source
	contents
	revision store.Revision
	size     int64
}

// recentChange is a change that is in a segment, and not in an archive yet.
type recentChange struct {
	key     string
	place   memory.Place
	time    int64 // in milliseconds
	deleted bool
}

func (w *snapshotWriter) snapshotFile() *snapshotFile {
	return &snapshotFile{source: w.source, contents: w.contents, revision: w.rev, size: w.at}
}

// reached returns the last change that is known.
func (p *past) reachedLocked() store.Revision { return p.base + store.Revision(len(p.recent)) }

// begins returns the revision after which all changes are known.
func (p *past) beginsLocked() store.Revision {
	if len(p.archives) > 0 {
		return p.archives[0].first() - 1
	}
	return p.base
}

// begin says which revision the store begins with. What does not lead there, without a gap, is not its past.
func (p *past) begin(rev store.Revision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reachedLocked() != rev {
		p.archives, p.recent, p.base = nil, nil, rev
	}
}

// add adds the next changes.
func (p *past) add(changes []change, places []memory.Place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range changes {
		if next := p.reachedLocked() + 1; c.revision != next {
			if c.revision < next {
				continue
			}
			p.archives, p.recent, p.base = nil, nil, c.revision-1 // what is before the gap is of no use
		}
		p.recent = append(p.recent, recentChange{key: c.key, place: places[i], time: milliseconds(c.time), deleted: c.deleted})
	}
}

// addArchive adds an archive, whose changes are no longer recent.
func (p *past) addArchive(a *archive) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := int(a.last - p.base)
	p.archives = append(p.archives, a)
	p.recent, p.base = slices.Clone(p.recent[n:]), a.last
}

// oldest returns the oldest revision whose state can be found.
func (p *past) oldest() store.Revision {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.oldestLocked()
}

func (p *past) oldestLocked() store.Revision {
	begins := p.beginsLocked()
	if begins == 1 {
		return 1 // of an empty store
	}
	for _, s := range p.snapshots {
		if s.revision >= begins {
			return s.revision
		}
	}
	return p.reachedLocked() + 1
}

// baseOf returns the last snapshot at or before a revision; nil is the empty store.
func (p *past) baseOfLocked(rev store.Revision) *snapshotFile {
	i := sort.Search(len(p.snapshots), func(i int) bool { return p.snapshots[i].revision > rev })
	if i == 0 {
		return nil
	}
	return p.snapshots[i-1]
}

// keepsPast reports whether changes are kept when they are over.
func (s *Store) keepsPast() bool { return s.options.History.kept() }

// openPast opens the archives of a directory, and its snapshots besides the newest, if there is one. What cannot be read
// ends the past there, and not the store.
func (s *Store) openPast(snapshots []store.Revision, newest *snapshotFile) error {
	archives, err := files(s.dir, archiveSuffix)
	if err != nil || !s.keepsPast() {
		return err
	}
	for _, first := range archives {
		a, err := openArchive(s.dir, s.codec, first)
		if err != nil || len(s.past.archives) > 0 && first != s.past.base+1 {
			s.options.Logger.Warn("the history has a gap; what is before it cannot be used", "dir", s.options.Dir, "from", s.past.base+1, "to", first, "err", err)
			s.past.archives = nil
		}
		if err != nil {
			continue
		}
		s.sources.add(a.source)
		s.past.archives, s.past.base = append(s.past.archives, a), a.last
	}
	for _, rev := range snapshots {
		f, err := openSnapshot(s.dir, s.codec, rev)
		if err != nil {
			s.options.Logger.Warn("a snapshot of the past cannot be used", "dir", s.options.Dir, "err", err)
			continue
		}
		s.sources.add(f.source)
		s.past.snapshots = append(s.past.snapshots, f)
	}
	if newest != nil {
		s.past.snapshots = append(s.past.snapshots, newest)
	}
	return nil
}

func openSnapshot(dir directory, c *codec, rev store.Revision) (*snapshotFile, error) {
	s := &snapshotFile{revision: rev}
	var err error
	s.source, s.contents, s.size, err = openContents(dir, c, fileName(rev, snapshotSuffix))
	return s, err
}

// openContents opens a file, and reads what it has.
func openContents(dir directory, c *codec, name string) (*source, contents, int64, error) {
	s := &source{name: name}
	var all contents
	var err error
	if s.file, err = dir.open(name); err != nil {
		return nil, all, 0, err
	}
	size, err := s.readHead()
	if err == nil {
		all, err = readContents(s, c, size)
	}
	if err != nil {
		_ = s.file.Close() // the first error counts
		return nil, all, 0, fmt.Errorf("%s: %w", name, err)
	}
	return s, all, size, nil
}

// endBefore removes what a snapshot makes superfluous. If the past is kept, it is put into an archive first.
func (s *Store) endBefore(now *snapshotFile) error {
	segments, err := files(s.dir, segmentSuffix)
	if err != nil {
		return err
	}
	n := 0
	for n+1 < len(segments) && segments[n+1] <= now.revision+1 {
		n++
	}
	segments = segments[:n]
	if !s.keepsPast() {
		return errors.Join(s.forgetPast(now.revision), s.removeFiles(segments, segmentSuffix))
	}
	s.past.addSnapshot(now)
	err = s.archive(segments)
	switch ended, full := s.troubles(); {
	case ended != nil: // by now, nothing is certain but what is there
		return ended
	case errors.Is(err, store.ErrNoSpace) || full != nil:
		s.options.Logger.Warn("the disk is full: the history is removed", "dir", s.options.Dir)
		err = s.forgetPast(now.revision)
	case err != nil:
		s.options.Logger.Error("changes cannot be kept: the history begins anew", "dir", s.options.Dir, "err", err)
		err = s.forgetPast(now.revision)
	}
	if err != nil {
		return err
	}
	return errors.Join(s.removeFiles(segments, segmentSuffix), s.limitPast(time.Now()))
}

// lastSnapshot returns the revision of the newest snapshot, or zero.
func (p *past) lastSnapshot() store.Revision {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if len(p.snapshots) == 0 {
		return 0
	}
	return p.snapshots[len(p.snapshots)-1].revision
}

func (p *past) addSnapshot(f *snapshotFile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.snapshots); n > 0 && p.snapshots[n-1].revision == f.revision {
		p.snapshots = p.snapshots[:n-1] // it has the place of the former one, also on the disk
	}
	p.snapshots = append(p.snapshots, f)
}

// archive makes an archive of segments that will not grow.
func (s *Store) archive(segments []store.Revision) error {
	s.past.mu.RLock()
	after := s.past.base
	s.past.mu.RUnlock()
	if len(segments) == 0 {
		return nil
	}
	a, err := writeArchive(s.dir, segments, after)
	switch {
	case errors.Is(err, errArchived): // before the last crash
		return nil
	case errors.Is(err, errNames):
		s.lose(err)
	case err == nil:
		s.sources.add(a.source)
		s.past.addArchive(a)
	}
	return spaceError(err)
}

// forgetPast removes all archives, and the snapshots before a revision.
func (s *Store) forgetPast(before store.Revision) error {
	p := &s.past
	p.mu.Lock()
	p.archives = nil
	if n := int(before - p.base); n > 0 && n <= len(p.recent) {
		p.recent, p.base = slices.Clone(p.recent[n:]), before
	}
	p.snapshots = slices.DeleteFunc(p.snapshots, func(f *snapshotFile) bool { return f.revision < before })
	p.mu.Unlock()
	archives, err := files(s.dir, archiveSuffix)
	snapshots, listed := files(s.dir, snapshotSuffix)
	snapshots = slices.DeleteFunc(snapshots, func(rev store.Revision) bool { return rev >= before })
	return errors.Join(err, listed, s.removeFiles(archives, archiveSuffix), s.removeFiles(snapshots, snapshotSuffix))
}

func (s *Store) removeFiles(revs []store.Revision, suffix string) (err error) {
	for _, rev := range revs {
		name := fileName(rev, suffix)
		s.sources.forget(name)
		err = errors.Join(err, s.dir.remove(name))
	}
	return err
}

// limitPast removes what is older than the past may be, or more than it may have. The newest snapshot stays, and with
// each snapshot the changes after it.
func (s *Store) limitPast(now time.Time) (err error) {
	snapshots, archives := s.past.limit(s.options.History, now)
	for _, f := range snapshots {
		err = errors.Join(err, s.removeFiles([]store.Revision{f.revision}, snapshotSuffix))
	}
	for _, a := range archives {
		err = errors.Join(err, s.removeFiles([]store.Revision{a.first()}, archiveSuffix))
	}
	return err
}

// limit takes out what is beyond the limits.
func (p *past) limit(h History, now time.Time) (snapshots []*snapshotFile, archives []*archive) {
	p.mu.Lock()
	defer p.mu.Unlock()
	begin := 1 // the snapshot with which the past would begin next; before the first is the empty store
	if p.beginsLocked() == 1 {
		begin = 0
	}
	for ; begin < len(p.snapshots) && p.beyond(h, now, p.snapshots[begin]); begin = 1 {
		snapshots, p.snapshots = append(snapshots, p.snapshots[:begin]...), p.snapshots[begin:]
		n := 0
		for n < len(p.archives) && p.archives[n].last <= p.snapshots[0].revision {
			n++
		}
		archives, p.archives = append(archives, p.archives[:n]...), p.archives[n:]
	}
	return snapshots, archives
}

// beyond reports whether the past is too large, or would be old enough if it began with a snapshot. The newest snapshot
// is the present.
func (p *past) beyond(h History, now time.Time, begin *snapshotFile) bool {
	var bytes int64
	for _, f := range p.snapshots[:len(p.snapshots)-1] {
		bytes += f.size
	}
	for _, a := range p.archives {
		bytes += a.size
	}
	return bytes > h.Bytes || now.Sub(begin.made) > h.Age
}
