package furnish

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// pretended records mounts without making them, so that the tests need no privileges.
type pretended struct {
	mounts map[string]string // target → what is mounted
	bound  func(*os.File)    // called before something is bound
	broken bool              // nothing secret can be mounted
}

func (p *pretended) memory(directory string, _ int64) error {
	p.mounts[directory] = "memory"
	return nil
}

func (p *pretended) secret(directory string) error {
	if p.broken {
		return fs.ErrPermission
	}
	p.mounts[directory] = "secret"
	return nil
}

func (p *pretended) mounted(directory string) bool { return p.mounts[directory] != "" }

func (p *pretended) bind(source *os.File, target string) error {
	if p.bound != nil {
		p.bound(source)
	}
	if _, err := os.Stat(target); err != nil {
		return err
	}
	var err error
	p.mounts[target], err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", source.Fd()))
	return err
}

func (p *pretended) device(_ context.Context, device, directory, kind string, options []string) error {
	p.mounts[directory] = strings.Join(append([]string{device, kind}, options...), " ")
	return nil
}

func (p *pretended) unmount(path string) error {
	delete(p.mounts, path)
	return nil
}

func pretending(t *testing.T) (*Furnisher, *pretended) {
	f, p := New(Options{Root: t.TempDir()}), &pretended{mounts: map[string]string{}}
	f.mounts = p
	return f, p
}

// volumeWith makes a directory in place of a volume, filled by fill.
func volumeWith(t *testing.T, fill func(directory string) error) string {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "volume")
	if err := errors.Join(os.MkdirAll(directory, 0o755), fill(directory)); err != nil {
		t.Fatal(err)
	}
	return directory
}

func TestASubPathCannotLeaveItsVolume(t *testing.T) {
	f, p := pretending(t)
	volume := volumeWith(t, func(directory string) error {
		return errors.Join(os.Symlink("/etc", filepath.Join(directory, "link")), os.Symlink("a/b", filepath.Join(directory, "inside")))
	})
	for _, good := range []string{"a/b", "inside", "."} {
		target, err := f.subPath("uid", "volume", "c", 0, volume, good)
		want := filepath.Join(volume, strings.Replace(good, "inside", "a/b", 1))
		if err != nil || p.mounts[target] != want {
			t.Errorf("%s leads to %q, %v", good, p.mounts[target], err)
		}
	}
	for _, bad := range []string{"../x", "link/passwd", "link", "a/../../x", "/etc"} {
		if target, err := f.subPath("uid", "volume", "c", 0, volume, bad); err == nil {
			t.Errorf("%s leads to %q", bad, p.mounts[target])
		}
	}
}

// Another container replaces a directory by a symbolic link between the check and the mount.
func TestALinkThatIsMadeAfterTheCheckDoesNotLeaveTheVolume(t *testing.T) {
	f, p := pretending(t)
	volume := volumeWith(t, func(directory string) error { return os.MkdirAll(filepath.Join(directory, "a"), 0o755) })
	p.bound = func(*os.File) {
		if err := errors.Join(os.Rename(filepath.Join(volume, "a"), filepath.Join(volume, "aside")), os.Symlink("/etc", filepath.Join(volume, "a"))); err != nil {
			t.Fatal(err)
		}
	}
	target, err := f.subPath("uid", "volume", "c", 0, volume, "a")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.mounts[target], filepath.Join(volume, "aside"); got != want {
		t.Errorf("mounted is %q, want what was opened, which is %q now", got, want)
	}
	if strings.HasPrefix(target, volume) {
		t.Errorf("the container is given %q, which others can exchange", target)
	}
}

func TestReleaseUnmountsSubPathsAndKeepsTheirContent(t *testing.T) {
	f, p := pretending(t)
	volume := volumeWith(t, func(directory string) error {
		return os.WriteFile(filepath.Join(directory, "file"), []byte("kept"), 0o644)
	})
	for i, below := range []string{"file", "directory"} {
		if _, err := f.subPath("uid", "volume", "c", i, volume, below); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Sweep(t.Context(), func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if len(p.mounts) > 0 {
		t.Errorf("still mounted: %v", p.mounts)
	}
	if _, err := os.Stat(f.podDirectory("uid")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the pod's directory is still there: %v", err)
	}
	if text, _ := os.ReadFile(filepath.Join(volume, "file")); string(text) != "kept" {
		t.Error("what was mounted is gone")
	}
}

func memoryPod(medium corev1.StorageMedium) *corev1.Pod {
	return with(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}})
}

func TestAMemoryVolumeIsMountedAgainAfterAReboot(t *testing.T) {
	f, p := pretending(t)
	pod := memoryPod(corev1.StorageMediumMemory)
	for _, moment := range []string{"first", "after a reboot"} {
		if err := f.Prepare(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		if directory := f.Directory(pod.UID, "v"); p.mounts[directory] != "memory" {
			t.Errorf("%s: the volume is not in memory", moment)
		}
		clear(p.mounts)
	}
}

func TestAHalfMadeVolumeIsCompletedAfterAKill(t *testing.T) {
	f, _ := pretending(t)
	pod := memoryPod(corev1.StorageMediumDefault)
	directory := f.Directory(pod.UID, "v")
	if err := os.MkdirAll(directory, 0o700); err != nil { // the kubelet was killed here
		t.Fatal(err)
	}
	if err := f.Prepare(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(directory); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("the volume's mode is %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(directory, 0o750); err != nil { // the container did this
		t.Fatal(err)
	}
	if err := f.Prepare(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(directory); info.Mode().Perm() != 0o750 {
		t.Errorf("the mode that the container chose became %v", info.Mode())
	}
}

func TestAHalfMadeSetOfFilesIsCompletedAfterAKill(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "volume")
	files := map[string]file{"a": {content: []byte("1"), mode: 0o644}}
	if err := replace(directory, files, nil); err != nil {
		t.Fatal(err)
	}
	// Killed before the visible name was made, and once before while another set was written.
	if err := errors.Join(os.Remove(filepath.Join(directory, "a")), os.Mkdir(filepath.Join(directory, "..2006_01_02"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := replace(directory, files, nil); err != nil {
		t.Fatal(err)
	}
	if read(t, filepath.Join(directory, "a")) != "1" {
		t.Error("the file has no name")
	}
	if _, err := os.Stat(filepath.Join(directory, "..2006_01_02")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the set that nobody uses is still there: %v", err)
	}
}

func TestTokensExpireByTheWallClock(t *testing.T) {
	kube := fake.NewClientset()
	kube.PrependReactor("create", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
		hence := metav1.NewTime(time.Now().Add(time.Hour).Round(0))
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: "secret", ExpirationTimestamp: hence}}, nil
	})
	all := newTokens(kube)
	if _, err := all.get(t.Context(), subject(), &corev1.ServiceAccountTokenProjection{}); err != nil {
		t.Fatal(err)
	}
	for _, known := range all.known {
		for _, when := range []time.Time{known.at, known.expiry} {
			if strings.Contains(when.String(), "m=") {
				t.Errorf("%s has a monotonic reading, which stands still while a machine is suspended", when)
			}
		}
	}
	if len(all.known) != 1 {
		t.Errorf("%d tokens are known", len(all.known))
	}
}

func TestAnImageVolumeIsMountedReadOnlyFromTheImage(t *testing.T) {
	f, _ := pretending(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid"}, Spec: corev1.PodSpec{
		Volumes:    []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "example.com/data:1"}}}},
		Containers: []corev1.Container{{Name: "main", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "data", SubPath: "part"}}}},
	}}
	spec := &container.Spec{Pod: pod, Container: &pod.Spec.Containers[0], VolumeImages: map[string]string{"data": "sha256:1"}, Sandbox: &container.SandboxSpec{Pod: pod}}
	if err := f.Prepare(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := f.Furnish(t.Context(), spec, nil); err != nil {
		t.Fatal(err)
	}
	want := container.Mount{Container: "/data", Image: "sha256:1", ImagePath: "part", ReadOnly: true}
	if spec.Mounts[0] != want {
		t.Errorf("got %+v, want %+v", spec.Mounts[0], want)
	}
}

func TestWhoeverMayWriteToAnEmptyDirInMemoryMayNotRemoveFilesOfOthers(t *testing.T) {
	for medium, want := range map[corev1.StorageMedium]fs.FileMode{
		corev1.StorageMediumMemory: 0o777 | fs.ModeSticky, corev1.StorageMediumDefault: 0o777,
	} {
		f, _ := pretending(t)
		pod := memoryPod(medium)
		if err := f.Prepare(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		if got := mode(t, f.Directory(pod.UID, "v")); got != want {
			t.Errorf("the mode of a volume in %q is %s, want %s", medium, got, want)
		}
	}
}
