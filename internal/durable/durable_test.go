package durable

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestAFileIsReplacedAsAWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, text := range []string{"first", "second and longer", ""} {
		if err := WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Errorf("the file holds %q (%v), want %q", got, err, text)
		}
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Errorf("%v is left behind", left)
	}
}

// A power failure may take back everything that is not synced: the content before it has its name, and the name before
// WriteFile returns.
func TestTheContentIsSyncedBeforeItsNameAndThenTheName(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "file")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	type step struct{ synced, holds, named string }
	var steps []step
	defer func(real func(*os.File) error) { syncFile = real }(syncFile)
	syncFile = func(f *os.File) error {
		content, _ := os.ReadFile(f.Name()) // none of a directory
		named, _ := os.ReadFile(path)
		steps = append(steps, step{f.Name(), string(content), string(named)})
		return nil
	}
	if err := WriteFile(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if want := []step{{path + ".new", "new", "old"}, {directory, "", "new"}}; !slices.Equal(steps, want) {
		t.Errorf("synced were %v, want %v", steps, want)
	}
	for i := range steps {
		left := i
		syncFile = func(*os.File) error {
			if left--; left < 0 {
				return os.ErrInvalid
			}
			return nil
		}
		if err := WriteFile(path, []byte("newer"), 0o600); !errors.Is(err, os.ErrInvalid) {
			t.Errorf("sync %d fails: %v", i, err)
		}
	}
}

func TestFilesThatACrashHasLeftAreReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path+".new", []byte("half of a longer content"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, []byte("whole"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "whole" || info.Mode().Perm() != 0o600 {
		t.Errorf("the file holds %q with mode %v", got, info.Mode())
	}
}

func TestAMissingDirectoryIsAnError(t *testing.T) {
	if err := WriteFile(filepath.Join(t.TempDir(), "none", "file"), nil, 0o600); err == nil {
		t.Error("a file was written into a directory that does not exist")
	}
}
