package etcd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockFile is locked in addition to etcd's own files. Etcd would wait for those silently; this lock fails at once.
const lockFile = "lock"

// lockDirectory creates the directory if needed and locks it for this store. The lock ends when the file is closed or
// the process ends.
func lockDirectory(dir string) (*os.File, error) {
	if dir == "" {
		return nil, errors.New("no data directory is given")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory cannot be made: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory %s cannot be written to: %w", dir, err)
	}
	if err := tryLock(f); err != nil {
		f.Close()
		return nil, inUse(dir, err)
	}
	if err := databaseIsFree(dir); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// databaseIsFree checks that no etcd runs on the directory that does not know our lock.
func databaseIsFree(dir string) error {
	f, err := os.OpenFile(databaseFile(dir), os.O_RDWR, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("data directory %s cannot be written to: %w", dir, err)
	}
	defer f.Close()
	if err := tryLock(f); err != nil {
		return inUse(dir, err)
	}
	return nil
}

func tryLock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

func inUse(dir string, err error) error {
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("data directory %s is in use by another process", dir)
	}
	return fmt.Errorf("data directory %s cannot be locked: %w", dir, err)
}
