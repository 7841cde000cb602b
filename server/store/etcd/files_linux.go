package etcd

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// takeFiles takes etcd's files away from members that were left behind. They hold locks on them, which would keep the
// next one waiting for ever, and must not write any more once it runs. Their descriptors lead nowhere from then on: the
// first thing that such a member finds is that it can't sync, and another of its goroutines ends.
func takeFiles(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("take etcd's files back: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("take etcd's files back: %w", err)
	}
	nowhere, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("take etcd's files back: %w", err)
	}
	defer nowhere.Close()
	const open = "/proc/self/fd"
	names, err := os.ReadDir(open)
	if err != nil {
		return fmt.Errorf("take etcd's files back: %w", err)
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name.Name())
		if err != nil {
			continue
		}
		path, err := os.Readlink(filepath.Join(open, name.Name()))
		if err != nil || !strings.HasPrefix(path, filepath.Join(dir, "member")+"/") {
			continue // what is closed by now needs nothing
		}
		// A mapping of the file keeps its lock even when the last descriptor is gone.
		_ = syscall.Flock(fd, syscall.LOCK_UN)
		if err := syscall.Dup3(int(nowhere.Fd()), fd, syscall.O_CLOEXEC); err != nil {
			return fmt.Errorf("take %s back: %w", path, err)
		}
	}
	return nil
}
