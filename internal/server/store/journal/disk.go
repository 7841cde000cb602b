package journal

import (
	"io"
	"os"
	"path/filepath"

	"github.com/millrace/millrace/internal/durable"
)

// directory is what the journal needs of a directory on a disk. Tests have one that crashes.
type directory interface {
	// create makes an empty file, also in place of another one.
	create(name string) (file, error)
	// open opens a file to read and to write.
	open(name string) (file, error)
	rename(from, to string) error
	remove(name string) error
	names() ([]string, error)
	size(name string) (int64, error)
	// sync waits until the names of all files are on the disk.
	sync() error
}

// file is what the journal needs of a file.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	size() (int64, error)
	// allocate gives the file its size and the space for it.
	allocate(size int64) error
	// sync waits until content and size are on the disk, syncData until the content of a preallocated file is.
	sync() error
	syncData() error
}

// realDirectory is a directory of the operating system.
type realDirectory string

func (d realDirectory) path(name string) string { return filepath.Join(string(d), name) }

func (d realDirectory) create(name string) (file, error) {
	return openFile(d.path(name), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (d realDirectory) open(name string) (file, error) { return openFile(d.path(name), os.O_RDWR) }

func openFile(path string, flags int) (file, error) {
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	return realFile{f}, nil
}

func (d realDirectory) rename(from, to string) error { return os.Rename(d.path(from), d.path(to)) }
func (d realDirectory) remove(name string) error     { return os.Remove(d.path(name)) }
func (d realDirectory) sync() error                  { return durable.SyncDirectory(string(d)) }

func (d realDirectory) size(name string) (int64, error) {
	i, err := os.Stat(d.path(name))
	if err != nil {
		return 0, err
	}
	return i.Size(), nil
}

func (d realDirectory) names() ([]string, error) {
	all, err := os.ReadDir(string(d))
	names := make([]string, len(all))
	for i, f := range all {
		names[i] = f.Name()
	}
	return names, err
}

// realFile is a file of the operating system.
type realFile struct{ *os.File }

func (f realFile) allocate(size int64) error { return allocate(f.File, size) }
func (f realFile) sync() error               { return f.File.Sync() }
func (f realFile) syncData() error           { return syncData(f.File) }

func (f realFile) size() (int64, error) {
	i, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return i.Size(), nil
}
