package journal

import (
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
)

var errCrashed = errors.New("the machine has crashed")

// sector is what a disk writes as a whole.
const sector = 512

// simDisk is a directory on a disk that keeps only what was synced. After a crash each sector and each name that was
// written since is there or not, in any order.
type simDisk struct {
	random *rand.Rand
	// before is called before each operation, which fails with its error.
	before func(name string) error

	mu      sync.Mutex
	space   int64 // how many bytes files may have in all; negative: any number
	sparse  bool  // whether preallocated space may be missing when it is written to
	crashed bool
	present map[string]*simFile // as the process sees it
	durable map[string]*simFile
	pending []func(map[string]*simFile) // changes of names since the last sync
}

// simFile is a file of a simDisk.
type simFile struct {
	disk    *simDisk
	present []byte
	durable []byte
	pending []simWrite
}

// simWrite sets the size if data is nil.
type simWrite struct {
	at   int64
	data []byte
}

func newSimDisk(random *rand.Rand) *simDisk {
	return &simDisk{random: random, space: -1, present: map[string]*simFile{}, durable: map[string]*simFile{}}
}

// crash returns the disk as the next start of the machine finds it.
func (d *simDisk) crash() *simDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.crashed = true
	next := newSimDisk(d.random)
	names := maps.Clone(d.durable)
	for _, change := range d.pending {
		if d.random.IntN(2) == 0 {
			change(names)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		content := names[name].survivors()
		next.present[name] = &simFile{disk: next, present: content, durable: slices.Clone(content)}
	}
	next.durable = maps.Clone(next.present)
	return next
}

// survivors is what is left of a file after a crash.
func (f *simFile) survivors() []byte {
	b := slices.Clone(f.durable)
	all, none := f.disk.random.IntN(4) == 0, f.disk.random.IntN(4) == 0
	for _, w := range f.pending {
		for part := range slices.Chunk(w.sectors(), 1) {
			if !none && (all || f.disk.random.IntN(2) == 0) {
				b = part[0].apply(b)
			}
		}
	}
	return b
}

// sectors are the parts of a write that are written separately.
func (w simWrite) sectors() (parts []simWrite) {
	for at, data := w.at, w.data; len(data) > 0; {
		n := min(int64(len(data)), sector-at%sector)
		parts = append(parts, simWrite{at, data[:n]})
		at, data = at+n, data[n:]
	}
	if w.data == nil {
		parts = []simWrite{w}
	}
	return parts
}

func (w simWrite) apply(b []byte) []byte {
	if end := w.at + int64(len(w.data)); end > int64(len(b)) {
		b = append(b, make([]byte, end-int64(len(b)))...)
	}
	copy(b[w.at:], w.data)
	return b
}

// enter begins an operation.
func (d *simDisk) enter(name string) error {
	var err error
	if d.before != nil {
		err = d.before(name)
	}
	d.mu.Lock()
	if d.crashed {
		err = errCrashed
	}
	return err
}

// change changes the names, at last on the disk.
func (d *simDisk) change(change func(map[string]*simFile)) {
	change(d.present)
	d.pending = append(d.pending, change)
}

func (d *simDisk) create(name string) (file, error) {
	err := d.enter("create")
	defer d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	f := &simFile{disk: d}
	d.change(func(names map[string]*simFile) { names[name] = f })
	return f, nil
}

func (d *simDisk) open(name string) (file, error) {
	err := d.enter("open")
	defer d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if f := d.present[name]; f != nil {
		return f, nil
	}
	return nil, syscall.ENOENT
}

func (d *simDisk) rename(from, to string) error {
	err := d.enter("rename")
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	f := d.present[from]
	if f == nil {
		return syscall.ENOENT
	}
	d.change(func(names map[string]*simFile) { names[to] = f; delete(names, from) })
	return nil
}

func (d *simDisk) remove(name string) error {
	err := d.enter("remove")
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	if d.present[name] == nil {
		return syscall.ENOENT
	}
	d.change(func(names map[string]*simFile) { delete(names, name) })
	return nil
}

func (d *simDisk) names() ([]string, error) {
	err := d.enter("names")
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.present)), err
}

func (d *simDisk) size(name string) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.present[name]; f != nil {
		return int64(len(f.present)), nil
	}
	return 0, syscall.ENOENT
}

func (d *simDisk) sync() error {
	err := d.enter("sync names")
	defer d.mu.Unlock()
	if err == nil {
		d.durable, d.pending = maps.Clone(d.present), nil
	}
	return err
}

// room returns how many bytes a file may still grow.
func (d *simDisk) room() int64 {
	left := d.space
	for _, f := range d.present {
		left -= int64(len(f.present))
	}
	return left
}

// write keeps a write, which has no data if it sets the size.
func (f *simFile) write(w simWrite) {
	f.present = w.apply(f.present)
	f.pending = append(f.pending, w)
}

func (f *simFile) WriteAt(b []byte, at int64) (int, error) {
	err := f.disk.enter("write")
	defer f.disk.mu.Unlock()
	n := len(b)
	grows := at + int64(n) - int64(len(f.present))
	if err == nil && f.disk.space >= 0 && (grows > f.disk.room() && grows > 0 || f.disk.sparse && f.disk.room() < 0) {
		err = syscall.ENOSPC
	}
	if err != nil && n > 0 {
		n = f.disk.random.IntN(n) // a part may have been written
	}
	if n > 0 {
		f.write(simWrite{at, slices.Clone(b[:n])})
	}
	return n, err
}

func (f *simFile) ReadAt(b []byte, at int64) (int, error) {
	err := f.disk.enter("read")
	defer f.disk.mu.Unlock()
	if err != nil {
		return 0, err
	}
	n := 0
	if at < int64(len(f.present)) {
		n = copy(b, f.present[at:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *simFile) Close() error { return nil }

func (f *simFile) size() (int64, error) {
	err := f.disk.enter("size")
	defer f.disk.mu.Unlock()
	return int64(len(f.present)), err
}

func (f *simFile) allocate(size int64) error {
	err := f.disk.enter("allocate")
	defer f.disk.mu.Unlock()
	grows := size - int64(len(f.present))
	if err == nil && f.disk.space >= 0 && grows > f.disk.room() {
		err = syscall.ENOSPC
	}
	if err == nil {
		f.write(simWrite{at: size})
	}
	return err
}

func (f *simFile) sync() error { return f.flush("sync") }

func (f *simFile) syncData() error { return f.flush("sync data") }

// flush makes a file durable. If that fails, nobody knows how much is, and another sync does not change it.
func (f *simFile) flush(name string) error {
	err := f.disk.enter(name)
	defer f.disk.mu.Unlock()
	if f.disk.crashed {
		return err
	}
	if f.durable = slices.Clone(f.present); err != nil {
		f.durable = f.survivors()
	}
	f.pending = nil
	return err
}
