package furnish

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/worker"
)

func TestTheFileSystemOfADeviceIsMountedForThePod(t *testing.T) {
	device := blockDevice(t)
	f, pod := claimedLocal(t, device, corev1.PersistentVolumeFilesystem)
	p := &pretended{mounts: map[string]string{}}
	f.mounts = p
	pod.Spec.Containers = []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/data"}}}}
	spec := specOf(pod, &pod.Spec.Containers[0])
	if err := errors.Join(f.Prepare(t.Context(), pod), f.Prepare(t.Context(), pod), f.Furnish(t.Context(), spec, nil)); err != nil {
		t.Fatal(err)
	}
	directory := f.volumeDirectory(string(pod.UID), "v")
	if p.mounts[directory] != device+" ext4" || len(p.mounts) != 1 {
		t.Errorf("mounted are %v", p.mounts)
	}
	if !slices.ContainsFunc(spec.Mounts, func(m container.Mount) bool { return m.Container == "/data" && m.Host == directory }) {
		t.Errorf("the container gets %+v", spec.Mounts)
	}
	if err := f.Release(t.Context(), worker.Key{}, string(pod.UID)); err != nil || len(p.mounts) != 0 {
		t.Errorf("after the pod %v are mounted, %v", p.mounts, err)
	}
}

func TestALocalVolumeIsGivenToTheGroupOfEachPodOnce(t *testing.T) {
	for _, c := range []struct {
		name            string
		group, readOnly bool
		want            fs.FileMode
	}{
		{"without a group", false, false, 0o700},
		{"with a group", true, false, 0o770 | fs.ModeSetgid},
		{"only to be read", true, true, 0o700},
	} {
		t.Run(c.name, func(t *testing.T) {
			volume := t.TempDir()
			below := filepath.Join(volume, "below")
			if err := os.Mkdir(below, 0o700); err != nil {
				t.Fatal(err)
			}
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(volume, link); err != nil {
				t.Fatal(err)
			}
			f, pod := claimedLocal(t, link, corev1.PersistentVolumeFilesystem)
			pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = c.readOnly
			pod.Spec.Containers = []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/data"}}}}
			if c.group {
				pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(os.Getgid()))}
			}
			if err := f.Prepare(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			if got := mode(t, below); got != c.want {
				t.Errorf("the mode is %s, want %s", got, c.want)
			}
			if err := errors.Join(os.Chmod(below, 0o700), f.Prepare(t.Context(), pod)); err != nil {
				t.Fatal(err)
			}
			if got := mode(t, below); got != 0o700 {
				t.Errorf("a mode that the pod has set became %s", got)
			}
		})
	}
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode() &^ fs.ModeDir
}
