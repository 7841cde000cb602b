package furnish

import (
	"errors"
	"io/fs"
	"strconv"

	"golang.org/x/sys/unix"
)

func mountMemory(folder string, size int64) error {
	options := ""
	if size > 0 {
		options = "size=" + strconv.FormatInt(size, 10)
	}
	return unix.Mount("tmpfs", folder, "tmpfs", 0, options)
}

// unmount ends a mount. Where there is none nothing happens.
func unmount(folder string) error {
	err := unix.Unmount(folder, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}
