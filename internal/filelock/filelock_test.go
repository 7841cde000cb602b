package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// open opens the file of a lock.
func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestALockIsForOneUntilItCloses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, second := open(t, path), open(t, path)
	if err := Try(first); err != nil {
		t.Fatal(err)
	}
	if err := Try(second); !errors.Is(err, ErrLocked) {
		t.Fatalf("the second one: %v", err)
	}
	got := make(chan error, 1)
	go func() { got <- Lock(second) }()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if err := Try(open(t, path)); !errors.Is(err, ErrLocked) {
		t.Fatalf("a third one: %v", err)
	}
}
