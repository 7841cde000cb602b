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

// closeTime is how long closing the files of a member may take: a write in progress has to return first.
const closeTime = 2 * time.Second

// takeFiles closes the files of a member that was abandoned. Such a member holds file locks, for which the next member
// would wait for ever, and it must not write any more once the next one runs.
//
// The files are closed through their os.File, never by descriptor number: by then the number may belong to a client's
// connection. A goroutine that writes to such a file later, or is just writing, gets an error.
func takeFiles(dir string, m *member) error {
	err := databases.take(databaseFile(dir))
	if m != nil && m.server != nil {
		err = errors.Join(err, closeLog(m.server))
	}
	err = errors.Join(err, removeSpare(dir))
	// Files that a failed start has opened are no longer reachable; the garbage collector closes them.
	runtime.GC()
	for end := time.Now().Add(closeTime); ; time.Sleep(10 * time.Millisecond) {
		path, open := stillOpen(dir)
		if !open {
			return nil // in case an error occurred before
		}
		if time.Now().After(end) {
			return fmt.Errorf("take etcd's files back: %w", errors.Join(fmt.Errorf("%s is still open", path), err))
		}
		runtime.GC()
	}
}

// stillOpen returns a file of etcd's directory that a descriptor of this process refers to. It closes nothing.
func stillOpen(dir string) (path string, open bool) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return dir, false // the directory is gone
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

// removeSpare removes the spare segment of etcd's log. The goroutine that made it may hold it for ever; the next member
// makes its own.
func removeSpare(dir string) error {
	spares, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.tmp"))
	for _, spare := range spares {
		// Truncating frees the space even if the file is still open.
		err = errors.Join(err, os.Truncate(spare, 0), os.Remove(spare))
	}
	return err
}

// release unlocks and closes a file. Without the unlock, a file that is mapped into memory would stay locked.
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
