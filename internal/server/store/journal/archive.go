package journal

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
)

// archive is a file of changes that are over, in order, from one revision to another without a gap. Its records are
// large, so that they compress well: several versions of one object are in one record, or objects that are alike.
type archive struct {
	*source
	contents
	size int64
}

const (
	archiveRecordBytes = 512 << 10
	indexRecordBytes   = 32 << 10
)

// first returns the revision of the first change.
func (a *archive) first() store.Revision { return a.changes[0].revision }

// place returns where the change of a revision is.
func (a *archive) place(rev store.Revision) memory.Place {
	return a.contents.place(a.source, int(rev-a.first()))
}

// find calls visit for the keys with a prefix, in order, and their changes, which are valid until it returns.
func (a *archive) find(c *codec, prefix string, visit func(key string, changes []indexed)) error {
	return a.findKeys(c, a.source, prefix, func(_ int, key string, changes []indexed) { visit(key, changes) })
}

// openArchive opens the archive that begins with a revision.
func openArchive(dir directory, c *codec, first store.Revision) (*archive, error) {
	a := &archive{}
	var err error
	if a.source, a.contents, a.size, err = openContents(dir, c, fileName(first, archiveSuffix)); err != nil {
		return nil, err
	}
	if a.first() != first || a.last < first {
		return nil, errors.Join(fmt.Errorf("%s: %w", a.name, errBroken), a.file.Close())
	}
	return a, nil
}

// readHead reads the head of a file, and returns its size.
func (s *source) readHead() (size int64, err error) {
	if size, err = s.file.size(); err != nil {
		return 0, err
	}
	head := make([]byte, headBytes)
	if _, err := s.file.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	s.salt, err = readHead(head)
	return size, err
}

// archiver writes an archive.
type archiver struct {
	*recordWriter
	changes []change
	size    int
	last    store.Revision
	keys    map[string][]indexed
}

// errArchived says that an archive would have nothing new.
var errArchived = errors.New("all changes are in archives")

// writeArchive makes an archive of what segments have after a revision.
func writeArchive(dir directory, segments []store.Revision, after store.Revision) (*archive, error) {
	w := &archiver{last: after, keys: make(map[string][]indexed)}
	written, err := writeFile(dir, "archive"+temporarySuffix, func(to *recordWriter) error {
		w.recordWriter, to.source.name = to, fileName(after+1, archiveSuffix)
		for _, first := range segments {
			if err := w.segment(dir, first); err != nil {
				return fmt.Errorf("%s: %w", fileName(first, segmentSuffix), err)
			}
		}
		if w.last == after {
			return errArchived
		}
		return w.end()
	})
	if err != nil {
		return nil, err
	}
	return &archive{source: written.source, contents: written.contents, size: written.at}, nil
}

// segment adds the changes of a segment.
func (w *archiver) segment(dir directory, first store.Revision) error {
	f, err := dir.open(fileName(first, segmentSuffix))
	if err != nil {
		return err
	}
	b, err := readAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	c := newDecoder()
	defer c.decoder.Close()
	at, err := c.eachGroup(b, w.add)
	if errors.Is(err, errEnd) {
		return nil
	}
	return fmt.Errorf("record at byte %d: %w", at, err)
}

func (w *archiver) add(changes []change) error {
	for _, c := range changes {
		switch {
		case c.revision <= w.last:
			continue
		case c.revision > w.last+1:
			return fmt.Errorf("%w: revision %d after %d", errBroken, c.revision, w.last)
		}
		w.last = c.revision
		w.keys[c.key] = append(w.keys[c.key], indexed{c.revision, c.deleted})
		w.changes = append(w.changes, c)
		if w.size += len(c.key) + len(c.value); w.size >= archiveRecordBytes {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *archiver) flush() error {
	if len(w.changes) == 0 {
		return nil
	}
	_, err := w.record(record{group: w.changes[0].revision, changes: w.changes, last: true})
	w.changes, w.size = w.changes[:0], 0
	return err
}

// end writes what is left, and the index of the keys.
func (w *archiver) end() error {
	if err := w.flush(); err != nil {
		return err
	}
	index := indexWriter{to: w.recordWriter}
	for _, key := range slices.Sorted(maps.Keys(w.keys)) {
		if err := index.add(key, w.keys[key]); err != nil {
			return err
		}
	}
	if err := index.flush(); err != nil {
		return err
	}
	return w.recordWriter.end(w.last)
}

func readAll(f file) ([]byte, error) {
	size, err := f.size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); err != nil && !(err == io.EOF && n == len(b)) {
		return nil, err
	}
	return b, nil
}
