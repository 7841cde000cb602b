package logs

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Rotation bounds the logs of one container.
type Rotation struct {
	// Size is the maximum size of a file: 10 MiB by default.
	Size int64
	// Files is the maximum number of files, including the current one: 5 by default.
	Files int
}

// Rotate renames a log that has grown too large, and removes the oldest ones. reopen must make the writer open a new
// file.
func (r Rotation) Rotate(path string, reopen func() error) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.Size() < cmp.Or(r.Size, 10<<20) {
		return err
	}
	moved := path + "." + time.Now().UTC().Format("20060102-150405.000000000")
	if err := os.Rename(path, moved); err != nil {
		return err
	}
	if err := reopen(); err != nil {
		return errors.Join(err, os.Rename(moved, path)) // the writer still uses the file
	}
	return r.prune(path)
}

func (r Rotation) prune(path string) error {
	old, err := filepath.Glob(path + ".*")
	if err != nil {
		return err
	}
	slices.Sort(old)
	for keep := max(cmp.Or(r.Files, 5)-1, 1); len(old) > keep; old = old[1:] {
		err = errors.Join(err, os.Remove(old[0]))
	}
	return err
}
