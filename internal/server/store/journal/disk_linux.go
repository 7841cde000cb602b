package journal

import (
	"os"

	"golang.org/x/sys/unix"
)

// allocate gives a file its size and the space for it.
func allocate(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS {
		return f.Truncate(size)
	}
	return err
}

// syncData waits until what was written to a preallocated file is on the disk.
func syncData(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
