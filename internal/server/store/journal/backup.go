package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/durable"
	"github.com/millrace/millrace/internal/server/store"
)

// Backup is a copy of a directory, in another one, that is brought up to date now and then. A store can open it.
type Backup struct {
	from, to string
	lock     *os.File
	copied   map[string]fs.FileInfo // the segments, as they were when they were copied
}

// OpenBackup begins a copy, or goes on with one. It must be closed.
func OpenBackup(from, to string) (*Backup, error) {
	if there, err := Exists(from); err != nil || !there {
		return nil, errors.Join(err, fmt.Errorf("there is no log in %s", from))
	}
	lock, err := lockDirectory(to)
	if err != nil {
		return nil, err
	}
	return &Backup{from: from, to: to, lock: lock, copied: map[string]fs.FileInfo{}}, nil
}

// Close ends the copying. The copy stays.
func (b *Backup) Close() error { return b.lock.Close() }

// backupTries is how often a copy begins anew because a file was removed meanwhile, which a snapshot does.
const backupTries = 5

// Update copies what has come since the last time, also while a store works with the directory. After it, the copy has
// all changes that were on the disk when it was called. It returns how many bytes it has written.
func (b *Backup) Update() (written int64, err error) {
	for range backupTries {
		var n int64
		n, err = b.update()
		if written += n; err == nil || !errors.Is(err, fs.ErrNotExist) {
			return written, err
		}
	}
	return written, err
}

// update copies snapshots and archives first: the segments that they replace are then not missed.
func (b *Backup) update() (written int64, err error) {
	names, err := realDirectory(b.from).names()
	if err != nil {
		return 0, err
	}
	var kept []string
	for _, suffix := range []string{snapshotSuffix, archiveSuffix, segmentSuffix} {
		for _, name := range names {
			if !strings.HasSuffix(name, suffix) {
				continue
			}
			copyFile := b.whole
			if suffix == segmentSuffix {
				copyFile = b.segment
			}
			n, err := copyFile(name)
			if written += n; err != nil {
				return written, err
			}
			kept = append(kept, name)
		}
	}
	return written, b.removeOthers(kept)
}

// whole copies a file that does not change.
func (b *Backup) whole(name string) (int64, error) {
	if b.same(name) {
		return 0, nil
	}
	text, err := os.ReadFile(filepath.Join(b.from, name))
	if err != nil {
		return 0, err
	}
	return int64(len(text)), durable.WriteFile(filepath.Join(b.to, name), text, 0o600)
}

// same reports whether a file that does not change was copied: its size is the same, and its salt, which no other file
// has.
func (b *Backup) same(name string) bool {
	one, err := headOf(filepath.Join(b.from, name))
	other, missing := headOf(filepath.Join(b.to, name))
	return err == nil && missing == nil && one == other
}

// headOf returns the size and the head of a file.
func headOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	head := make([]byte, headBytes)
	if err == nil {
		_, err = f.ReadAt(head, 0)
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprint(info.Size(), head), nil
}

// segment copies a segment as far as it has whole groups, if it has changed.
func (b *Backup) segment(name string) (int64, error) {
	now, err := os.Stat(filepath.Join(b.from, name))
	if err != nil {
		return 0, err
	}
	if before := b.copied[name]; before != nil && before.ModTime().Equal(now.ModTime()) && before.Size() == now.Size() {
		return 0, nil
	}
	text, err := os.ReadFile(filepath.Join(b.from, name))
	if err != nil {
		return 0, err
	}
	c := newDecoder()
	defer c.decoder.Close()
	last := store.Revision(0)
	end, err := c.eachGroup(text, func(changes []change) error {
		last = changes[len(changes)-1].revision
		return nil
	})
	if end == 0 || !errors.Is(err, errEnd) && c.wholeAfter(text, end, last) {
		return 0, fmt.Errorf("%s, record at byte %d: %w", name, end, err)
	}
	if err := durable.WriteFile(filepath.Join(b.to, name), text[:end], 0o600); err != nil {
		return 0, err
	}
	b.copied[name] = now
	return int64(end), nil
}

// removeOthers removes what the directory has no longer.
func (b *Backup) removeOthers(kept []string) error {
	names, err := realDirectory(b.to).names()
	for _, name := range names {
		suffix := filepath.Ext(name)
		if slices.Contains([]string{snapshotSuffix, archiveSuffix, segmentSuffix}, suffix) && !slices.Contains(kept, name) {
			err = errors.Join(err, os.Remove(filepath.Join(b.to, name)))
		}
	}
	return errors.Join(err, durable.SyncDirectory(b.to))
}
