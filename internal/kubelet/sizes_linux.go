package kubelet

import "golang.org/x/sys/unix"

// sizes returns the size of the memory, the size of the disk that holds root, and the kernel's version.
func sizes(root string) (memory, disk int64, kernel string) {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		memory = int64(info.Totalram) * int64(info.Unit)
	}
	var fs unix.Statfs_t
	if unix.Statfs(root, &fs) == nil {
		disk = int64(fs.Blocks) * fs.Bsize
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		kernel = unix.ByteSliceToString(name.Release[:])
	}
	return memory, disk, kernel
}

// sameDisk reports whether two paths are on the same file system. If that cannot be found out, it returns true.
func sameDisk(a, b string) bool {
	var one, other unix.Stat_t
	return unix.Stat(a, &one) != nil || unix.Stat(b, &other) != nil || one.Dev == other.Dev
}

// used returns the usage of the disk that holds path, in percent.
func used(path string) (int, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return 0, err
	}
	if fs.Blocks == 0 {
		return 0, nil
	}
	return int(100 - fs.Bavail*100/fs.Blocks), nil
}
