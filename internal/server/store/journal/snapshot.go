package journal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
)

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
	const temporary = "snapshot" + temporarySuffix
	w, err := s.writeSnapshot(ctx, temporary)
	if err == nil {
		err = s.dir.rename(temporary, w.source.name)
	}
	if err != nil {
		_ = s.dir.remove(temporary) // the first error counts; a start removes it, too
		return err
	}
	if err := s.dir.sync(); err != nil {
		s.lose(err) // nobody knows which names are on the disk
		return err
	}
	s.sources.add(w.source)
	for i, p := range w.places {
		w.refs[i].Move(p)
	}
	return s.removeBefore(w.rev)
}

// writeSnapshot writes all entries as one group.
func (s *Store) writeSnapshot(ctx context.Context, name string) (*snapshotWriter, error) {
	f, err := s.dir.create(name)
	if err != nil {
		return nil, err
	}
	w := newSnapshotWriter(f)
	defer w.codec.close()
	err = s.state.Each(ctx, func(now store.Revision) error {
		s.state.Expiring(func(key string, at time.Time) { w.expires[key] = at })
		w.begin(now)
		return nil
	}, w.add)
	if err == nil {
		err = w.end()
	}
	if err != nil {
		_ = f.Close() // the first error counts
		return nil, err
	}
	s.snapshotBytes.Store(w.at)
	return w, nil
}

// snapshotWriter collects entries to records.
type snapshotWriter struct {
	source  *source
	at      int64
	codec   *codec
	rev     store.Revision
	expires map[string]time.Time
	entries []change
	size    int
	buffer  []byte // records that are not written yet
	refs    []memory.Ref
	places  []memory.Place // of refs
}

func newSnapshotWriter(f file) *snapshotWriter {
	return &snapshotWriter{source: &source{file: f}, codec: newCodec(), expires: make(map[string]time.Time)}
}

// begin says of which revision the entries are.
func (w *snapshotWriter) begin(rev store.Revision) {
	w.rev, w.source.name = rev, fileName(rev, snapshotSuffix)
	w.buffer, w.source.salt = newHead()
}

// end writes what is left, and syncs the file.
func (w *snapshotWriter) end() error {
	if err := w.flush(true); err != nil {
		return err
	}
	return w.source.file.sync()
}

func (w *snapshotWriter) add(e store.Entry, ref memory.Ref) error {
	w.refs = append(w.refs, ref)
	w.entries = append(w.entries, change{key: e.Key, value: e.Value, revision: e.Revision, expires: w.expires[e.Key]})
	if w.size += len(e.Key) + len(e.Value); w.size < recordBytes {
		return nil
	}
	return w.flush(false)
}

// flush makes a record of the entries, and writes the records when there are enough of them.
func (w *snapshotWriter) flush(last bool) error {
	start := len(w.buffer)
	w.buffer = w.codec.append(w.buffer, w.source.salt, record{group: w.rev, changes: w.entries, last: last})
	w.places = append(w.places, placesOf(w.source, w.at, []span{{start, len(w.buffer) - start, len(w.entries)}})...)
	w.entries, w.size = w.entries[:0], 0
	if len(w.buffer) < recordBytes && !last {
		return nil
	}
	n, err := w.source.file.WriteAt(w.buffer, w.at)
	w.at += int64(n)
	w.buffer = w.buffer[:0]
	return err
}

// readSnapshot restores the state of a snapshot.
func (s *Store) readSnapshot(rev store.Revision) error {
	name := fileName(rev, snapshotSuffix)
	f, err := s.dir.open(name)
	if err != nil {
		return err
	}
	from := &source{file: f, name: name}
	s.sources.add(from)
	size, err := f.size()
	if err != nil {
		return err
	}
	s.snapshotBytes.Store(size)
	r := &recordReader{r: bufio.NewReaderSize(io.NewSectionReader(f, 0, size), 1<<20), left: size, codec: s.codec, source: from}
	entries, err := r.snapshot(rev)
	if err != nil {
		return fmt.Errorf("%s, record at byte %d: %w", name, r.at, err)
	}
	s.state.Restore(entries, rev)
	return nil
}

// recordReader reads one record after the other.
type recordReader struct {
	r        *bufio.Reader
	at, left int64
	source   *source
	codec    *codec
	buffer   []byte
}

// snapshot reads all of a snapshot.
func (r *recordReader) snapshot(rev store.Revision) (entries []memory.Restored, err error) {
	head, err := r.take(headBytes)
	if err == nil {
		r.source.salt, err = readHead(head)
	}
	for last := false; err == nil && !last; {
		var rec record
		start := r.at
		if rec, err = r.next(); err == nil && rec.group != rev {
			err = fmt.Errorf("%w: it belongs to revision %d", errBroken, rec.group)
		}
		places := placesOf(r.source, start, []span{{0, int(r.at - start), len(rec.changes)}})
		for i, c := range rec.changes {
			entries = append(entries, memory.Restored{
				Key: c.key, Revision: c.revision, Bytes: len(c.value), Expires: c.expires, Place: places[i],
			})
		}
		last = rec.last
	}
	if err == nil && r.left > 0 {
		err = fmt.Errorf("%w: %d bytes after the end", errBroken, r.left)
	}
	return entries, err
}

func (r *recordReader) next() (record, error) {
	header, err := r.take(headerBytes)
	if err != nil {
		return record{}, err
	}
	n, sum, err := bodyLength(header, r.source.salt)
	if err != nil { // also at an end, which must not come before the last record
		r.at -= headerBytes
		return record{}, err
	}
	body, err := r.take(n)
	if err != nil {
		return record{}, err
	}
	rec, err := r.codec.body(body, r.source.salt, sum)
	if err != nil {
		r.at -= int64(headerBytes + n)
	}
	return rec, err
}

// take reads bytes, which are valid until the next call.
func (r *recordReader) take(n int) ([]byte, error) {
	if int64(n) > r.left {
		return nil, errEnd
	}
	if cap(r.buffer) < n {
		r.buffer = make([]byte, n)
	}
	got, err := io.ReadFull(r.r, r.buffer[:n])
	r.at, r.left = r.at+int64(got), r.left-int64(got)
	return r.buffer[:n], err
}

// removeBefore removes the snapshots before rev, and the segments whose changes are all at or before it.
func (s *Store) removeBefore(rev store.Revision) error {
	snapshots, err := files(s.dir, snapshotSuffix)
	if err != nil {
		return err
	}
	for _, old := range snapshots {
		if old < rev {
			err = errors.Join(err, s.removeFile(fileName(old, snapshotSuffix)))
		}
	}
	segments, listed := files(s.dir, segmentSuffix)
	err = errors.Join(err, listed)
	for i := range len(segments) - 1 {
		if segments[i+1] <= rev+1 {
			err = errors.Join(err, s.removeFile(fileName(segments[i], segmentSuffix)))
		}
	}
	return err
}

func (s *Store) removeFile(name string) error {
	s.sources.forget(name)
	return s.dir.remove(name)
}
