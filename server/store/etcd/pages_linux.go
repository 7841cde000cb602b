package etcd

import (
	"os"
	"syscall"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// readAhead lets the system read a file into its cache, without waiting for that.
func readAhead(f *os.File) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.Fadvise(int(fd), 0, 0, unix.FADV_WILLNEED) })
}

// dropPages lets go of the pages of a database that this process has looked at. They stay in the system's cache, and come back when they are
// looked at again.
func dropPages(db *bbolt.DB) error {
	return db.View(func(tx *bbolt.Tx) error { // while it is open, the mapping stays where it is
		_, _, errno := syscall.Syscall(syscall.SYS_MADVISE, db.Info().Data, uintptr(tx.Size()), uintptr(syscall.MADV_DONTNEED))
		if errno != 0 {
			return errno
		}
		return nil
	})
}
