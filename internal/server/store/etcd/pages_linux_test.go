package etcd

import (
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel shortens a request to read ahead: one for all of a large file would read only its first megabytes.
func TestAllOfALargeFileIsReadAhead(t *testing.T) {
	const size = 32 << 20
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	if n := residentPages(t, f, size); n > 0 {
		t.Skipf("this file system keeps %d pages in memory", n)
	}
	readAhead(f)
	want, have := size/os.Getpagesize(), 0
	for end := time.Now().Add(time.Minute); have < want && time.Now().Before(end); {
		have = residentPages(t, f, size)
	}
	if have < want {
		t.Errorf("%d of %d pages are in memory", have, want)
	}
}

// residentPages returns how many pages of a file are in memory.
func residentPages(t *testing.T, f *os.File, size int) (n int) {
	t.Helper()
	mapped, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mapped)
	pages := make([]byte, size/os.Getpagesize())
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mapped[0])), uintptr(size), uintptr(unsafe.Pointer(&pages[0]))); errno != 0 {
		t.Fatal(errno)
	}
	for _, p := range pages {
		n += int(p & 1)
	}
	return n
}
