package furnish

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// system has the mount operations of Linux.
type system struct{}

func (system) memory(directory string, size int64) error {
	options := ""
	if size > 0 {
		options = "size=" + strconv.FormatInt(size, 10)
	}
	return unix.Mount("tmpfs", directory, "tmpfs", 0, options)
}

// secret keeps the files out of the swap area where the kernel can (since 6.3).
func (system) secret(directory string) error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV
	err := unix.Mount("tmpfs", directory, "tmpfs", flags, "mode=0755,noswap")
	if errors.Is(err, unix.EINVAL) {
		err = unix.Mount("tmpfs", directory, "tmpfs", flags, "mode=0755")
	}
	return err
}

func (system) mounted(directory string) bool {
	var own, parent unix.Stat_t
	if unix.Lstat(directory, &own) != nil || unix.Lstat(filepath.Dir(directory), &parent) != nil {
		return false
	}
	return own.Dev != parent.Dev
}

func (system) bind(source *os.File, target string) error {
	return unix.Mount(fmt.Sprintf("/proc/self/fd/%d", source.Fd()), target, "", unix.MS_BIND, "")
}

func (system) unmount(path string) error {
	err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}

// openBeneath opens a path below a directory with O_PATH. If a symbolic link at any place of the path leads out of the
// directory, it fails. The kernel checks this while it resolves the path.
func openBeneath(directory, below string) (*os.File, error) {
	root, err := unix.Open(directory, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: directory, Err: err}
	}
	defer unix.Close(root)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(root, below, &how)
		if err == nil {
			return os.NewFile(uintptr(fd), filepath.Join(directory, below)), nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) { // the path was renamed meanwhile
			return nil, &fs.PathError{Op: "open", Path: below, Err: err}
		}
	}
}
