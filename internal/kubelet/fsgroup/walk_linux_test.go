package fsgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// group is one that this process may give files to.
func group(t *testing.T) int64 {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files to groups")
	}
	return 4242
}

func groupOf(t *testing.T, path string) int64 {
	t.Helper()
	var s unix.Stat_t
	if err := unix.Lstat(path, &s); err != nil {
		t.Fatal(err)
	}
	return int64(s.Gid)
}

// world makes a volume with the directories a/b, and beside it a directory that is none of the volume's with the file
// secret of mode 0600.
func world(t *testing.T) (volume, outside string) {
	t.Helper()
	top := t.TempDir()
	volume, outside = filepath.Join(top, "volume"), filepath.Join(top, "outside")
	err := errors.Join(os.MkdirAll(filepath.Join(volume, "a", "b"), 0o700), os.Chmod(volume, 0o755), os.MkdirAll(filepath.Join(outside, "b"), 0o700),
		os.WriteFile(filepath.Join(volume, "a", "b", "secret"), nil, 0o600), os.WriteFile(filepath.Join(outside, "b", "secret"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return volume, outside
}

func untouched(t *testing.T, outside string, group int64) {
	t.Helper()
	for _, name := range []string{".", "b", "b/secret"} {
		path := filepath.Join(outside, name)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if groupOf(t, path) == group || info.Mode().Perm()&0o070 != 0 {
			t.Fatalf("%s outside of the volume was given away: group %d, mode %s", name, groupOf(t, path), info.Mode())
		}
	}
}

func TestEverythingInAVolumeIsGivenAndLinksAreNotFollowed(t *testing.T) {
	to := group(t)
	volume, outside := world(t)
	if err := os.Symlink(outside, filepath.Join(volume, "a", "link")); err != nil {
		t.Fatal(err)
	}
	if err := Give(volume, to, &corev1.Pod{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{".": 0o775 | os.ModeSetgid, "a": 0o770 | os.ModeSetgid, "a/b": 0o770 | os.ModeSetgid, "a/b/secret": 0o660} {
		path := filepath.Join(volume, name)
		info, err := os.Stat(path)
		if err != nil || groupOf(t, path) != to || info.Mode()&^os.ModeDir != want {
			t.Errorf("%s has the group %d and the mode %s, %v", name, groupOf(t, path), info.Mode(), err)
		}
	}
	untouched(t, outside, to)
}

// A container replaces each thing that the walk has found by a link, just before the walk changes it.
func TestALinkThatIsPutInPlaceOfAFileIsNotFollowed(t *testing.T) {
	to := group(t)
	for _, replaced := range []string{"a", "a/b", "a/b/secret"} {
		volume, outside := world(t)
		target := filepath.Join(outside, strings.TrimPrefix(strings.TrimPrefix(replaced, "a"), "/"))
		w := walk{group: int(to), opened: func(at string) {
			if at == replaced {
				path := filepath.Join(volume, replaced)
				if err := errors.Join(os.Rename(path, filepath.Join(volume, "aside")), os.Symlink(target, path)); err != nil {
					t.Error(err)
				}
			}
		}}
		if err := w.volume(volume); err != nil {
			t.Errorf("with a link in place of %s: %v", replaced, err)
		}
		untouched(t, outside, to)
	}
}

// A container exchanges a directory and a link to the outside as fast as it can, while the volume is given again and
// again.
func TestNothingIsGivenAwayBesideAContainerThatExchangesDirectoriesAndLinks(t *testing.T) {
	to := group(t)
	volume, outside := world(t)
	link, directory := filepath.Join(volume, "link"), filepath.Join(volume, "a")
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	var exchanging sync.WaitGroup
	exchanging.Go(func() {
		for !over.Load() {
			if err := unix.Renameat2(unix.AT_FDCWD, link, unix.AT_FDCWD, directory, unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 300 {
		if err := Give(volume, to, &corev1.Pod{}); err != nil {
			t.Error(err)
			break
		}
	}
	over.Store(true)
	exchanging.Wait()
	untouched(t, outside, to)
}

func TestAVolumeWhoseRootBelongsToTheGroupIsLeftAloneIfThePodSaysSo(t *testing.T) {
	to := group(t)
	volume, _ := world(t)
	pod := &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch)}}}
	if err := Give(volume, to, pod); err != nil {
		t.Fatal(err)
	}
	later := filepath.Join(volume, "later")
	if err := errors.Join(os.WriteFile(later, nil, 0o600), os.Chown(later, -1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := Give(volume, to, pod); err != nil || groupOf(t, later) == to {
		t.Errorf("the volume was given again, %v", err)
	}
}
