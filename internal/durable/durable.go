// Package durable replaces files atomically: after a crash a file has its old content or the new one.
package durable

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// syncFile is replaced by tests, which see what has been synced and when.
var syncFile = (*os.File).Sync

// WriteFile replaces the content of a file. Once it returns without an error, the new content survives a power failure:
// both the data and the name are synced to the disk.
func WriteFile(path string, text []byte, mode fs.FileMode) error {
	next := path + ".new"
	if err := writeSynced(next, text, mode); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	return SyncDirectory(filepath.Dir(path))
}

func writeSynced(path string, text []byte, mode fs.FileMode) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	if err := f.Chmod(mode); err != nil { // a file that a crash has left behind may have another mode
		return err
	}
	if _, err := f.Write(text); err != nil {
		return err
	}
	return syncFile(f)
}

// SyncDirectory syncs the names in a directory. Windows cannot be asked to: its file systems log changes of names
// themselves.
func SyncDirectory(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := syncFile(d); err != nil {
		return fmt.Errorf("sync the directory %s: %w", path, err)
	}
	return nil
}
