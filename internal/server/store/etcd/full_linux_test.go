package etcd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

// smallDisk mounts a file system of that many MiB, until the test ends.
func smallDisk(t *testing.T, mib int) string {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		t.Skipf("no disk can be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillUp leaves that many bytes free on a disk, and returns a function that frees the space again.
func fillUp(t *testing.T, dir string, left int64) (empty func()) {
	t.Helper()
	path := filepath.Join(dir, fmt.Sprintf("ballast-%d", time.Now().UnixNano()))
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// Etcd allocates space at the same time, so an allocation that should fit may fail.
	for at, n := int64(0), int64(1<<20); n >= 4096; {
		if n > freeBytes(dir)-left {
			n /= 2
		} else if err := syscall.Fallocate(int(f.Fd()), 0, at, n); err == nil {
			at += n
		} else if errors.Is(err, syscall.ENOSPC) {
			n /= 2
		} else {
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAFullDiskIsSurvived reaches the end of the disk in several places: in the log, in the database, and in both.
func TestAFullDiskIsSurvived(t *testing.T) {
	for _, left := range []int64{0, 1 << 20, 3 << 20} {
		t.Run(fmt.Sprint(left>>10, "KiB left"), func(t *testing.T) {
			t.Parallel()
			dir := smallDisk(t, 128)
			s, err := Embed(t.Context(), EmbedOptions{Dir: filepath.Join(dir, "etcd"), ReserveBytes: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
			done := map[string]store.Revision{}
			for round := range 1 + 1>>(left>>20) { // what one round has written takes space in the next
				empty := fillUp(t, dir, left)
				writeUntilFull(t, s, round, done)
				empty()
				writeAgain(t, s, round, done)
			}
		})
	}
}

func writeUntilFull(t *testing.T, s *Store, round int, done map[string]store.Revision) {
	value := make([]byte, 256<<10)
	for i := range 400 {
		key := fmt.Sprintf("/%d/%d", round, i)
		rev, err := s.Create(t.Context(), key, value, 0)
		switch {
		case err == nil:
			done[key] = rev
		case errors.Is(err, store.ErrNoSpace), errors.Is(err, store.ErrUnavailable):
			t.Logf("after %d writes: %v", i, err)
			if err := s.Writable(); err == nil {
				t.Error("it says that it can be written to")
			}
			return
		default:
			t.Fatal(err)
		}
	}
	t.Fatal("the disk does not fill")
}

func writeAgain(t *testing.T, s *Store, round int, done map[string]store.Revision) {
	for deadline := time.Now().Add(40 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		key := fmt.Sprintf("/again/%d/%d", round, time.Now().UnixNano())
		rev, err := s.Create(t.Context(), key, nil, 0)
		if err == nil {
			done[key] = rev
			break
		}
		if !errors.Is(err, store.ErrNoSpace) && !errors.Is(err, store.ErrUnavailable) || time.Now().After(deadline) {
			t.Fatalf("the store does not recover: %v", err)
		}
	}
	for key, rev := range done {
		e, err := s.Get(t.Context(), key, store.GetOptions{})
		if err != nil || e.Revision != rev {
			t.Errorf("Durable: %s was acknowledged at %d: %d, %v", key, rev, e.Revision, err)
		}
		if _, err := s.Delete(t.Context(), key, rev); err != nil {
			t.Fatal(err)
		}
		delete(done, key) // frees space for the next round
	}
}
