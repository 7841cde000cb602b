package furnish

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestMissingDirectoriesBelowAVolumeHaveItsMode(t *testing.T) {
	for _, mode := range []fs.FileMode{0o777 | fs.ModeSetgid | fs.ModeSticky, 0o777, 0o750} {
		volume := t.TempDir()
		before := filepath.Join(volume, "a")
		if err := errors.Join(os.Mkdir(before, 0o700), os.Chmod(volume, mode)); err != nil {
			t.Fatal(err)
		}
		if err := makeBelow(volume, "a/b/c"); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]fs.FileMode{before: 0o700, before + "/b": mode, before + "/b/c": mode} {
			if info, err := os.Stat(path); err != nil || info.Mode() != want|fs.ModeDir {
				t.Errorf("in a volume of mode %s, %s is %s, %v, want %s", mode, path, info.Mode(), err, want)
			}
		}
	}
}

func TestNoDirectoryIsMadeOutsideOfAVolume(t *testing.T) {
	outside := t.TempDir()
	volume := filepath.Join(outside, "volume")
	if err := os.Mkdir(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(volume, "link")); err != nil {
		t.Fatal(err)
	}
	for _, below := range []string{"../x", "link/x", "/x"} {
		if err := makeBelow(volume, below); err == nil {
			t.Errorf("%s was made", below)
		}
	}
	if _, err := os.Stat(filepath.Join(outside, "x")); err == nil {
		t.Error("a directory was made beside the volume")
	}
}
