// Package filelock locks files between processes: flock on Unix systems, LockFileEx on Windows. A lock ends when the
// file is closed, and when the process ends, however it ends. Two files that one process has opened exclude each other
// too.
//
// On Windows the content of a locked file cannot be read by others. Lock a file that has none.
package filelock

import (
	"errors"
	"os"
)

// ErrLocked is returned by Try if another file has the lock.
var ErrLocked = errors.New("its lock is taken")

// Lock waits until no other has the lock of the file, and takes it.
func Lock(f *os.File) error { return lock(f) }

// Try takes the lock of a file, or returns ErrLocked if another has it.
func Try(f *os.File) error { return try(f) }
