package furnish

import "os"

// mounts is what a Furnisher asks of the operating system. Tests replace it.
type mounts interface {
	// memory mounts a file system in memory; a size of 0 does not bound it.
	memory(folder string, size int64) error
	// mounted says whether a folder is where something is mounted.
	mounted(folder string) bool
	// bind mounts an open file or folder at a path.
	bind(source *os.File, target string) error
	// unmount ends a mount. Where there is none nothing happens.
	unmount(path string) error
}
