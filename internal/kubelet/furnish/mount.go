package furnish

import (
	"context"
	"os"
)

// mounts are the mount operations of the operating system. Tests replace them.
type mounts interface {
	// memory mounts a tmpfs. A size of 0 means no limit.
	memory(directory string, size int64) error
	// secret mounts a tmpfs for what must never be on a disk.
	secret(directory string) error
	// mounted reports whether a directory is a mount point.
	mounted(directory string) bool
	// bind mounts an open file or directory at a path.
	bind(source *os.File, target string) error
	// device mounts the file system of a block device. A device that has nothing gets a file system of this kind.
	device(ctx context.Context, device, directory, kind string, options []string) error
	// unmount unmounts a path. A path that is no mount point is no error.
	unmount(path string) error
}
