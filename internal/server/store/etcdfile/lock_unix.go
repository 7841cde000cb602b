//go:build unix

package etcdfile

import (
	"os"
	"syscall"
)

// tryLock fails if an etcd has the database. The lock ends when the file is closed.
func tryLock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) }
