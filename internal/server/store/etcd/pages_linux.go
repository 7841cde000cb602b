package etcd

import (
	"os"
	"syscall"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// readAheadPiece is how much the kernel is asked to read at once. It shortens longer requests, to a length that depends
// on the device.
const readAheadPiece = 1 << 20

// readAhead asks the kernel to read a file into the page cache, and does not wait until that is done. A file that would
// fill half of the memory is left to be read when it is needed.
func readAhead(f *os.File) {
	var system unix.Sysinfo_t
	info, err := f.Stat()
	if err != nil || unix.Sysinfo(&system) != nil || uint64(info.Size()) > uint64(system.Totalram)*uint64(system.Unit)/2 {
		return
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		for at := int64(0); at < info.Size(); at += readAheadPiece {
			_ = unix.Fadvise(int(fd), at, readAheadPiece, unix.FADV_WILLNEED)
		}
	})
}

// dropPages releases the pages of a database that this process has read. They stay in the kernel's page cache and are
// mapped again when they are read again.
func dropPages(db *bbolt.DB) error {
	return db.View(func(tx *bbolt.Tx) error { // the mapping stays in place while the transaction is open
		_, _, errno := syscall.Syscall(syscall.SYS_MADVISE, db.Info().Data, uintptr(tx.Size()), uintptr(syscall.MADV_DONTNEED))
		if errno != 0 {
			return errno
		}
		return nil
	})
}
