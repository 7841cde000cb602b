package furnish

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/utils/ptr"
)

// The names that make a replacement atomic: every visible name is a link through "..data", which is a link to the
// directory of the current set.
const (
	dataLink = "..data"
	nextLink = "..data_tmp"
)

// replace makes a directory hold exactly these files. A reader sees all of the old set or all of the new one.
func replace(directory string, files map[string]file, group *int64) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	present, _ := os.Readlink(filepath.Join(directory, dataLink))
	if present == "" || !equal(filepath.Join(directory, present), files) {
		var err error
		if present, err = exchange(directory, files, group); err != nil {
			return err
		}
	}
	// Also if the set exists already: the kubelet that made it may have been killed before this step.
	return errors.Join(names(directory, files), dropSets(directory, present))
}

// exchange writes a new set and points ..data to it. It returns the set's name.
func exchange(directory string, files map[string]file, group *int64) (string, error) {
	set, err := os.MkdirTemp(directory, time.Now().UTC().Format("..2006_01_02_15_04_05."))
	if err != nil {
		return "", err
	}
	if err := writeAll(set, files, group); err != nil {
		return "", errors.Join(err, os.RemoveAll(set))
	}
	next := filepath.Join(directory, nextLink)
	os.Remove(next)
	if err := os.Symlink(filepath.Base(set), next); err != nil {
		return "", err
	}
	return filepath.Base(set), os.Rename(next, filepath.Join(directory, dataLink))
}

// dropSets removes all sets but the current one.
func dropSets(directory, present string) error {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), "..") && e.Name() != present {
			err = errors.Join(err, os.RemoveAll(filepath.Join(directory, e.Name())))
		}
	}
	return err
}

func writeAll(set string, files map[string]file, group *int64) error {
	if err := os.Chmod(set, 0o755); err != nil {
		return err
	}
	for name, f := range files {
		path := filepath.Join(set, name)
		if !strings.HasPrefix(path, set+string(filepath.Separator)) {
			return fmt.Errorf("%q leads out of the volume", name)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.content, 0o600); err != nil {
			return err
		}
		mode := f.mode
		if group != nil {
			mode |= 0o440
		}
		if err := give(path, f.owner, group); err != nil {
			return err
		}
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
	}
	return nil
}

// give sets a file's owner and group where they are known.
func give(path string, owner, group *int64) error {
	if owner == nil && group == nil {
		return nil
	}
	return os.Chown(path, int(ptr.Deref(owner, -1)), int(ptr.Deref(group, -1)))
}

// equal reports whether a set already has these files.
func equal(set string, files map[string]file) bool {
	count := 0
	err := filepath.WalkDir(set, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(set, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if wanted, ok := files[name]; err != nil || !ok || !bytes.Equal(wanted.content, content) {
			return errors.Join(err, fs.ErrInvalid)
		}
		count++
		return nil
	})
	return err == nil && count == len(files)
}

// names makes the links of visible names, and removes those that are no longer needed.
func names(directory string, files map[string]file) error {
	wanted := map[string]bool{}
	for name := range files {
		first, _, _ := strings.Cut(name, "/")
		wanted[first] = true
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name(), ".."):
		case wanted[e.Name()]:
			delete(wanted, e.Name())
		default:
			err = errors.Join(err, os.Remove(filepath.Join(directory, e.Name())))
		}
	}
	for name := range wanted {
		err = errors.Join(err, os.Symlink(filepath.Join(dataLink, name), filepath.Join(directory, name)))
	}
	return err
}
