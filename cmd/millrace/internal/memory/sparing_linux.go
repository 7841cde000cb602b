package memory

import (
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapSparingly makes the kernel load the program's pages one by one. By default it also maps the cached pages around
// each page that is used, 64 KiB or a whole folio of up to 2 MiB. Then all of the 80 MB of code and constants are soon
// resident, of which a cluster needs 20.
//
// Memory that is registered with a userfaultfd is exempt from that. It is registered for write notifications, which
// this mode does not deliver, and nobody writes to code and constants. If the kernel is older than 6.7, or forbids it,
// nothing changes, and the result is false.
func mapSparingly() bool {
	const userModeOnly = 1
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|userModeOnly, 0, 0)
	if errno != 0 {
		return false
	}
	// Constants of the kernel's interface that x/sys does not have. The descriptor stays open, because closing it would
	// end the registration.
	const (
		request, register = 0xc018aa3f, 0xc020aa00 // UFFDIO_API, UFFDIO_REGISTER
		version           = 0xaa
		asyncWrites       = 1 << 15 // UFFD_FEATURE_WP_ASYNC
		writes            = 2       // UFFDIO_REGISTER_MODE_WP
	)
	hello := struct{ version, features, ioctls uint64 }{version, asyncWrites, 0}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(unsafe.Pointer(&hello))); errno != 0 {
		unix.Close(int(fd))
		return false
	}
	files := program()
	for m := range mappings() {
		if !slices.Contains(files, m.file) {
			continue
		}
		unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_NOHUGEPAGE) // a huge page would be loaded as a whole
		area := struct{ start, length, mode, ioctls uint64 }{uint64(m.start), uint64(m.end - m.start), writes, 0}
		unix.Syscall(unix.SYS_IOCTL, fd, register, uintptr(unsafe.Pointer(&area)))
	}
	return true
}
