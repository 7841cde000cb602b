package etcd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// closeTime is how long the files of a member may take to be closed: a write that is under way must come back first.
const closeTime = 2 * time.Second

// takeFiles takes etcd's files away from a member that was left behind. Such a member holds locks on them, which would keep the next one
// waiting for ever, and must not write any more once that one runs.
//
// The files are closed as files, never by the numbers of their descriptors: a number may belong to a client's connection by the time that
// something is done to it. So a goroutine that writes to them later, or is in the middle of a write, gets an error.
func takeFiles(dir string, m *member) error {
	err := databases.take(databaseFile(dir))
	if m != nil && m.server != nil {
		err = errors.Join(err, closeLog(m.server))
	}
	err = errors.Join(err, removeSpare(dir))
	// Files that a failed start has opened cannot be reached any more: the garbage collector closes them.
	runtime.GC()
	for end := time.Now().Add(closeTime); ; time.Sleep(10 * time.Millisecond) {
		path, open := stillOpen(dir)
		if !open {
			return nil // whatever went wrong on the way
		}
		if time.Now().After(end) {
			return fmt.Errorf("take etcd's files back: %w", errors.Join(fmt.Errorf("%s is still open", path), err))
		}
		runtime.GC()
	}
}

// stillOpen names a file of etcd's folder that a descriptor of this process leads to. It only looks.
func stillOpen(dir string) (path string, open bool) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return dir, false // the folder is gone
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return dir, true
	}
	const descriptors = "/proc/self/fd"
	names, err := os.ReadDir(descriptors)
	if err != nil {
		return descriptors, true
	}
	for _, name := range names {
		path, err := os.Readlink(filepath.Join(descriptors, name.Name()))
		if err == nil && strings.HasPrefix(path, filepath.Join(dir, "member")+"/") && !strings.HasSuffix(path, " (deleted)") {
			return path, true
		}
	}
	return "", false
}

// removeSpare removes the segment that etcd's log has in reserve. The goroutine that made it may hold it for ever; the next member makes its own.
func removeSpare(dir string) error {
	spares, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.tmp"))
	for _, spare := range spares {
		// Its space is needed even while it is held.
		err = errors.Join(err, os.Truncate(spare, 0), os.Remove(spare))
	}
	return err
}

// release unlocks and closes a file. A file that is mapped into memory keeps its lock when it is closed.
func release(f *os.File) error {
	raw, err := f.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { _ = syscall.Flock(int(fd), syscall.LOCK_UN) })
	}
	if err := errors.Join(err, f.Close()); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
