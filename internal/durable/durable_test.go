package durable

import (
	"os"
	"path/filepath"
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
