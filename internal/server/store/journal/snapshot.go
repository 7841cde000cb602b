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

// snapshot writes the present state to a file of its own, and removes what it makes superfluous, unless the past is
// kept.
func (s *Store) snapshot(ctx context.Context) error {
	w, err := s.writeSnapshot(ctx)
	if errors.Is(spaceError(err), store.ErrNoSpace) && s.keepsPast() {
		s.options.Logger.Warn("the disk is full: the history is removed", "dir", s.options.Dir)
		if err = s.forgetPast(s.past.lastSnapshot()); err == nil {
			w, err = s.writeSnapshot(ctx)
		}
	}
	if errors.Is(err, errNames) {
		s.lose(err)
	}
	if err != nil {
		return err
	}
	s.snapshotBytes.Store(w.at)
	s.sources.add(w.source)
	for i, p := range w.places {
		w.refs[i].Move(p)
	}
	return s.endBefore(w.snapshotFile())
}

const temporarySnapshot = "snapshot" + temporarySuffix

// writeSnapshot writes all entries as one group.
func (s *Store) writeSnapshot(ctx context.Context) (w *snapshotWriter, err error) {
	_, err = writeFile(s.dir, temporarySnapshot, func(to *recordWriter) error {
		w = newSnapshotWriter(to)
		err := s.state.Each(ctx, func(now store.Revision) error {
			s.state.Expiring(func(key string, at time.Time) { w.expires[key] = at })
			w.begin(now)
			return nil
		}, w.add)
		if err != nil {
			return err
		}
		return w.end()
	})
	return w, err
}

// snapshotWriter collects entries to records.
type snapshotWriter struct {
	*recordWriter
	rev     store.Revision
	expires map[string]time.Time
	entries []change
	size    int
	index   []indexedKey
	refs    []memory.Ref
	places  []memory.Place // of refs
}

// indexedKey is a key and its last change.
type indexedKey struct {
	key      string
	revision store.Revision
}

func newSnapshotWriter(to *recordWriter) *snapshotWriter {
	return &snapshotWriter{recordWriter: to, expires: make(map[string]time.Time)}
}

// begin says of which revision the entries are.
func (w *snapshotWriter) begin(rev store.Revision) {
	w.rev, w.source.name = rev, fileName(rev, snapshotSuffix)
}

// end writes what is left, and syncs the file.
func (w *snapshotWriter) end() error {
	if err := w.flush(true); err != nil {
		return err
	}
	index := indexWriter{to: w.recordWriter}
	for _, k := range w.index {
		if err := index.add(k.key, []indexed{{revision: k.revision}}); err != nil {
			return err
		}
	}
	if err := index.flush(); err != nil {
		return err
	}
	return w.recordWriter.end(w.rev)
}

func (w *snapshotWriter) add(e store.Entry, ref memory.Ref) error {
	w.refs = append(w.refs, ref)
	w.index = append(w.index, indexedKey{e.Key, e.Revision})
	w.entries = append(w.entries, change{key: e.Key, value: e.Value, revision: e.Revision, expires: w.expires[e.Key]})
	if w.size += len(e.Key) + len(e.Value); w.size < recordBytes {
		return nil
	}
	return w.flush(false)
}

// flush makes a record of the entries.
func (w *snapshotWriter) flush(last bool) error {
	at, err := w.record(record{group: w.rev, changes: w.entries, last: last})
	for i := range w.entries {
		w.places = append(w.places, at.place(w.source, i))
	}
	w.entries, w.size = w.entries[:0], 0
	return err
}

// readSnapshot restores the state of a snapshot.
func (s *Store) readSnapshot(rev store.Revision) (*snapshotFile, error) {
	f, err := openSnapshot(s.dir, s.codec, rev)
	if err != nil {
		return nil, err
	}
	s.sources.add(f.source)
	s.snapshotBytes.Store(f.size)
	section := io.NewSectionReader(f.file, 0, f.size)
	r := &recordReader{r: bufio.NewReaderSize(section, 1<<20), left: f.size, codec: s.codec, source: f.source}
	entries, err := r.snapshot(rev)
	if err != nil {
		return nil, fmt.Errorf("%s, record at byte %d: %w", f.name, r.at, err)
	}
	s.state.Restore(entries, rev)
	return f, nil
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
