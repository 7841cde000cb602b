package journal

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

// recordWriter writes a file of records that ends with a list of them.
type recordWriter struct {
	source   *source
	codec    *codec
	at       int64  // where buffer goes
	buffer   []byte // records that are not written yet
	changes  int    // in all records
	contents contents
}

func newRecordWriter(f file) *recordWriter {
	w := &recordWriter{source: &source{file: f}, codec: newCodec()}
	w.buffer, w.source.salt = newHead()
	return w
}

// errNames is the error when nobody knows which names of files are on the disk.
var errNames = errors.New("the names of files cannot be synced")

// writeFile makes a file, which has the name that write gives to its source when it is whole. The file stays open.
func writeFile(dir directory, temporary string, write func(*recordWriter) error) (*recordWriter, error) {
	f, err := dir.create(temporary)
	if err != nil {
		return nil, err
	}
	w := newRecordWriter(f)
	defer w.codec.close()
	if err = write(w); err == nil {
		err = dir.rename(temporary, w.source.name)
	}
	if err != nil {
		_, _ = f.Close(), dir.remove(temporary) // the first error counts; a start removes it, too
		return nil, err
	}
	if err := dir.sync(); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%w: %w", errNames, err)
	}
	return w, nil
}

// record adds a record of changes.
func (w *recordWriter) record(r record) (extent, error) {
	e := extent{offset: w.at + int64(len(w.buffer)), revision: r.group, number: w.changes}
	w.changes += len(r.changes)
	if len(r.changes) > 0 {
		e.revision, e.time, e.key = r.changes[0].revision, r.changes[0].time, r.changes[0].key
	}
	start := len(w.buffer)
	w.buffer = w.codec.append(w.buffer, w.source.salt, r)
	e.length = len(w.buffer) - start
	w.contents.changes = append(w.contents.changes, e)
	return e, w.writeLarge()
}

// index adds a record of the index, which begins with a key, the number of which is given.
func (w *recordWriter) index(key string, number int, content []byte) error {
	e := extent{offset: w.at + int64(len(w.buffer)), key: key, number: number}
	start := len(w.buffer)
	w.buffer = w.codec.frame(w.buffer, w.source.salt, ofIndex, 1, content)
	e.length = len(w.buffer) - start
	w.contents.keys = append(w.contents.keys, e)
	return w.writeLarge()
}

// writeLarge writes the buffer if it is large.
func (w *recordWriter) writeLarge() error {
	if len(w.buffer) < recordBytes {
		return nil
	}
	return w.write()
}

func (w *recordWriter) write() error {
	n, err := w.source.file.WriteAt(w.buffer, w.at)
	w.at += int64(n)
	w.buffer = w.buffer[:0]
	return err
}

// end writes what is left and the contents, and syncs the file.
func (w *recordWriter) end(last store.Revision) error {
	w.contents.last, w.contents.made = last, time.Now()
	at := w.at + int64(len(w.buffer))
	w.buffer = w.codec.frame(w.buffer, w.source.salt, ofIndex, 1, w.contents.append(nil))
	w.buffer = append(w.buffer, w.source.salt.trailer(at)...)
	if err := w.write(); err != nil {
		return err
	}
	return w.source.file.sync()
}
