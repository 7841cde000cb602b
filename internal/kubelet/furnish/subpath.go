package furnish

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// subPath prepares a path below a volume to be mounted into a container, and returns its path on the node.
//
// The path is opened once, beneath the volume, and the opened file is bound to a directory that only the kubelet can
// change. If another container that shares the volume replaces a part of the path by a link after that, this container
// still gets the file that was opened.
func (f *Furnisher) subPath(uid, volume, container string, index int, root, below string) (string, error) {
	opened, err := openBelow(root, below)
	if err != nil {
		return "", err
	}
	defer opened.Close()
	target := filepath.Join(f.subPathDirectory(uid), volume, container, strconv.Itoa(index))
	if err := f.clearSubPath(target); err != nil { // left by an earlier run of the container
		return "", err
	}
	if err := makeTarget(target, opened); err != nil {
		return "", err
	}
	if err := f.mounts.bind(opened, target); err != nil {
		return "", fmt.Errorf("mount subPath %q: %w", below, err)
	}
	return target, nil
}

func (f *Furnisher) subPathDirectory(uid string) string {
	return filepath.Join(f.podDirectory(uid), "volume-subpaths")
}

// openBelow opens a path below a volume, and makes it if it is missing. It fails for a path that leaves the volume.
func openBelow(volume, below string) (*os.File, error) {
	opened, err := openBeneath(volume, below)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeBelow(volume, below); err == nil {
			opened, err = openBeneath(volume, below)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("subPath %q: %w", below, err)
	}
	return opened, nil
}

// makeBelow makes the directories of a path that are missing. Their mode is the volume's, so that whoever may write to
// the volume may write to them.
func makeBelow(volume, below string) error {
	root, err := os.OpenRoot(volume)
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	mode := info.Mode() & (fs.ModePerm | fs.ModeSetgid | fs.ModeSticky)
	path := ""
	for part := range strings.SplitSeq(filepath.Clean(below), string(filepath.Separator)) {
		path = filepath.Join(path, part)
		err := root.Mkdir(path, mode.Perm())
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = root.Chmod(path, mode) // whatever the umask is
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// makeTarget makes the mount point: a directory for a directory, a file for anything else.
func makeTarget(target string, source *os.File) error {
	info, err := source.Stat()
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.MkdirAll(target, 0o750)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return err
	}
	return os.WriteFile(target, nil, 0o640)
}

// clearSubPath unmounts a path and removes the mount point. It never removes what is below, because that may be a
// volume.
func (f *Furnisher) clearSubPath(target string) error {
	if err := f.mounts.unmount(target); err != nil {
		return fmt.Errorf("unmount %s: %w", target, err)
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// clearSubPaths unmounts all subPaths of a pod.
func (f *Furnisher) clearSubPaths(uid string) error {
	targets, err := filepath.Glob(filepath.Join(f.subPathDirectory(uid), "*", "*", "*"))
	if err != nil {
		return err
	}
	for _, target := range targets {
		if err := f.clearSubPath(target); err != nil {
			return err
		}
	}
	return os.RemoveAll(f.subPathDirectory(uid)) // only empty directories are left in it now
}
