// Package etcdfile reads the files of an etcd that is not running: the database and the log of a data directory (Open),
// or a snapshot that `etcdctl snapshot save` has made (OpenSnapshot). No code of an etcd server runs.
//
// What it guarantees:
//
//   - The state is the one that etcd itself would have after a start: what the log has and the database lacks, after a
//     kill -9, is applied to the keys that were read. All keys have the revisions that etcd gave them.
//   - Nothing is written to, created or renamed in the directory.
//   - A file that is damaged, lacks a part or is not of etcd is an error with the name of the file, and the number of
//     the page or the offset. No content of a file makes a function here panic, or allocate more than the file's size.
//     The end of the log that was written in part when the machine failed is no damage: nobody was told of it.
//   - The values are read from the file when they are listed; only keys and the values of the log's rest are in memory.
//
// It does not read the past: a list shows the newest revision only. It reads the log of a cluster with one member,
// where what is in the log is decided. Other clusters are read from a snapshot.
//
// The database is a file of bbolt. It is not read with bbolt, which maps the file into memory and trusts it: a damaged
// page ends the process, or makes it run in a circle. The same holds for the reader of etcd's log, which panics.
package etcdfile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/millrace/millrace/internal/server/store"
)

// Options are those of Open and OpenSnapshot. The zero value works.
type Options struct {
	// Told is told how many bytes of how many were read, about once for each MiB.
	Told func(read, size int64)
	// SkipHashCheck accepts a snapshot without the sum of its content, or with a wrong one: the copy of a database file.
	SkipHashCheck bool
}

// Files are the open files of an etcd.
type Files struct {
	file  *os.File // nil if there is no database
	state *state
	keys  []string // sorted
}

// Open reads the data directory of an etcd with one member. An etcd that runs there is an error.
func Open(ctx context.Context, dir string, o Options) (*Files, error) {
	path := filepath.Join(dir, "member", "snap", "db")
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return open(nil, newState(nil), dir)
	}
	if err != nil {
		return nil, err
	}
	s, err := readDirectory(ctx, f, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return open(f, s, dir)
}

// readDirectory reads the database of a directory.
func readDirectory(ctx context.Context, f *os.File, o Options) (*state, error) {
	if err := tryLock(f); err != nil {
		return nil, fmt.Errorf("an etcd, or another process, uses it: %w", err)
	}
	size, err := sizeOf(f)
	if err != nil {
		return nil, err
	}
	if size == 0 { // etcd was killed when it had just made it
		return newState(f), nil
	}
	return readDatabase(f, size, newMeter(ctx, size, o.Told))
}

// open applies the log of a directory, if it has one, to the state of the database.
func open(f *os.File, s *state, dir string) (*Files, error) {
	err := s.readLog(filepath.Join(dir, "member", "wal"))
	if err == nil && len(s.members) > 1 {
		err = fmt.Errorf("%s belongs to an etcd cluster of %d members: make a snapshot of it", dir, len(s.members))
	}
	if err != nil {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
		return nil, err
	}
	return newFiles(f, s), nil
}

// OpenSnapshot reads a snapshot. The sum of its content, which follows it, is checked first.
func OpenSnapshot(ctx context.Context, path string, o Options) (*Files, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	s, err := readSnapshot(ctx, f, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return newFiles(f, s), nil
}

func readSnapshot(ctx context.Context, f *os.File, o Options) (*state, error) {
	size, err := sizeOf(f)
	if err != nil {
		return nil, err
	}
	summed := size%minPageSize == sha256.Size
	if summed {
		size -= sha256.Size
	}
	all := size
	if !o.SkipHashCheck {
		all = 2 * size
	}
	m := newMeter(ctx, all, o.Told)
	switch {
	case o.SkipHashCheck:
	case !summed:
		return nil, errors.New("it has no sum of its content at its end: it is incomplete, or it was not made by etcdctl snapshot save")
	default:
		if err := checkSum(f, size, m); err != nil {
			return nil, err
		}
	}
	return readDatabase(f, size, m)
}

// checkSum compares the sum at the end with that of the bytes before it.
func checkSum(f io.ReaderAt, size int64, m *meter) error {
	h := sha256.New()
	if _, err := io.Copy(h, io.TeeReader(io.NewSectionReader(f, 0, size), m)); err != nil {
		return err
	}
	want := make([]byte, sha256.Size)
	if _, err := f.ReadAt(want, size); err != nil {
		return err
	}
	if !bytes.Equal(h.Sum(nil), want) {
		return errors.New("its content does not have the sum at its end: it is damaged")
	}
	return nil
}

func sizeOf(f *os.File) (int64, error) {
	i, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !i.Mode().IsRegular() {
		return 0, errors.New("it is not a file")
	}
	return i.Size(), nil
}

// Revision returns the newest revision.
func (f *Files) Revision() store.Revision { return store.Revision(f.state.revision) }

// Close closes the file.
func (f *Files) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// meter counts what is read, tells how far it is, and ends reading when its context ends.
type meter struct {
	ctx              context.Context
	read, size, next int64
	told             func(read, size int64)
}

// meterStep is how many bytes are read between two words about them.
const meterStep = 1 << 20

func newMeter(ctx context.Context, size int64, told func(read, size int64)) *meter {
	if told == nil {
		told = func(int64, int64) {}
	}
	return &meter{ctx: ctx, size: size, told: told}
}

// Write implements io.Writer.
func (m *meter) Write(b []byte) (int, error) { return len(b), m.add(int64(len(b))) }

func (m *meter) add(n int64) error {
	if m.read += n; m.read < m.next {
		return nil
	}
	m.next = m.read + meterStep
	m.told(min(m.read, m.size), m.size)
	return m.ctx.Err()
}
