package etcd

import (
	"os"
	"syscall"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// readAhead asks the kernel to read a file into the page cache, and does not wait.
func readAhead(f *os.File) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.Fadvise(int(fd), 0, 0, unix.FADV_WILLNEED) })
}

// dropPages releases the pages of a database that this process has read. They stay in the kernel's page cache and are mapped again when they are read
// again.
func dropPages(db *bbolt.DB) error {
	return db.View(func(tx *bbolt.Tx) error { // the mapping stays in place while the transaction is open
		_, _, errno := syscall.Syscall(syscall.SYS_MADVISE, db.Info().Data, uintptr(tx.Size()), uintptr(syscall.MADV_DONTNEED))
		if errno != 0 {
			return errno
		}
		return nil
	})
}
