package fsgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// walk gives the files of one volume to a group.
//
// Containers may rename and replace what is in the volume during the walk. So each file is opened once, without
// following a link, and what is changed is the opened file, never a path. A directory is opened by its path beneath the
// volume's, and the kernel refuses a path with a link in it.
type walk struct {
	group int
	lazy  bool // nothing is done if the volume's root belongs to the group
	root  int
	// opened is called after a file was opened and before it is changed. Only tests set it.
	opened func(path string)
}

func (w *walk) volume(volume string) error {
	root, err := unix.Open(volume, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: volume, Err: err}
	}
	defer unix.Close(root)
	w.root = root
	var s unix.Stat_t
	if err := unix.Fstat(root, &s); err != nil {
		return err
	}
	if w.lazy && w.owns(&s) {
		return nil
	}
	if err := w.give(root, &s); err != nil {
		return &fs.PathError{Op: "give", Path: volume, Err: err}
	}
	if s.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	left := []string{"."}
	for len(left) > 0 {
		last := len(left) - 1
		directory := left[last]
		found, err := w.directory(directory)
		if err != nil {
			return err
		}
		left = append(left[:last], found...)
	}
	return nil
}

// owns reports whether a file belongs to the group and new files in it will.
func (w *walk) owns(s *unix.Stat_t) bool {
	return int(s.Gid) == w.group && s.Mode&unix.S_ISGID != 0 && s.Mode&0o060 == 0o060
}

// directory gives what is in a directory, and returns the directories in it.
func (w *walk) directory(at string) (found []string, err error) {
	names, fd, err := w.list(at)
	if err != nil || fd < 0 {
		return nil, err
	}
	defer unix.Close(fd)
	for _, name := range names {
		isDirectory, err := w.entry(fd, path.Join(at, name), name)
		if err != nil {
			return nil, err
		}
		if isDirectory {
			found = append(found, path.Join(at, name))
		}
	}
	return found, nil
}

// list opens a directory and returns the names in it. If it is not there any more, or no directory, the descriptor is
// negative.
func (w *walk) list(at string) ([]string, int, error) {
	fd, err := openDirectory(w.root, at)
	if gone(err) {
		return nil, -1, nil
	}
	if err != nil {
		return nil, -1, &fs.PathError{Op: "open", Path: at, Err: err}
	}
	again, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) // the file that lists is closed with the list
	if err != nil {
		unix.Close(fd)
		return nil, -1, err
	}
	f := os.NewFile(uintptr(again), at)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		unix.Close(fd)
		return nil, -1, err
	}
	return names, fd, nil
}

// entry gives one file, and reports whether it is a directory. Links are left as they are: what they lead to may be
// anywhere.
func (w *walk) entry(directory int, at, name string) (isDirectory bool, err error) {
	fd, err := unix.Openat(directory, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return false, &fs.PathError{Op: "open", Path: at, Err: err}
	}
	defer unix.Close(fd)
	if w.opened != nil {
		w.opened(at)
	}
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return false, err
	}
	if s.Mode&unix.S_IFMT == unix.S_IFLNK {
		return false, nil
	}
	if err := w.give(fd, &s); err != nil {
		return false, &fs.PathError{Op: "give", Path: at, Err: err}
	}
	return s.Mode&unix.S_IFMT == unix.S_IFDIR, nil
}

// give gives an opened file to the group.
func (w *walk) give(fd int, s *unix.Stat_t) error {
	if err := unix.Fchownat(fd, "", -1, w.group, unix.AT_EMPTY_PATH); err != nil {
		return err
	}
	mode := s.Mode&0o1777 | 0o660
	if s.Mode&unix.S_IFMT == unix.S_IFDIR {
		mode |= 0o110 | unix.S_ISGID
	}
	return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), mode) // leads to the opened file itself, not to a path
}

// openAttempts bounds how often a directory is opened again because something was renamed at the same time.
const openAttempts = 1000

func openDirectory(root int, at string) (fd int, err error) {
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for range openAttempts {
		if fd, err = unix.Openat2(root, at, &how); !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return fd, err
}

// gone reports whether a file is not there any more, or something else is in its place.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}
