package furnish

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// podInfo is a volume of the kind that secrets are in, without an API server.
func podInfo() corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{
		Items: []corev1.DownwardAPIVolumeFile{{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
	}}}}}
}

func TestSecretsAndTokensAreOnNoDisk(t *testing.T) {
	f, p := pretending(t)
	pod := with(podInfo())
	for range 2 {
		if err := f.Prepare(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	directory := f.Directory(pod.UID, "v")
	if p.mounts[directory] != "secret" || read(t, filepath.Join(directory, "name")) != pod.Name {
		t.Errorf("mounted are %v", p.mounts)
	}
	if err := f.Sweep(t.Context(), func(string) bool { return false }); err != nil || len(p.mounts) > 0 {
		t.Errorf("when the pod is gone, %v are mounted, %v", p.mounts, err)
	}
}

func TestAPodWhoseSecretsCannotBeInMemoryDoesNotStart(t *testing.T) {
	f, p := pretending(t)
	p.broken = true
	pod := with(podInfo())
	if err := f.Prepare(t.Context(), pod); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("prepare says %v", err)
	}
	if _, err := os.Stat(f.Directory(pod.UID, "v")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something is on the disk: %v", err)
	}
}

func TestSecretsOfARunningPodStayWhereItSeesThem(t *testing.T) {
	f, p := pretending(t)
	pod := with(podInfo())
	f.SecretsOnDisk = true // as an earlier version had it
	if err := f.Prepare(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	f.SecretsOnDisk = false
	if err := f.Prepare(t.Context(), pod); err != nil || len(p.mounts) > 0 {
		t.Errorf("mounted over the files is %v, %v", p.mounts, err)
	}
}

func TestOtherUsersOfTheMachineDoNotLookIntoThePodsDirectories(t *testing.T) {
	f, _ := pretending(t)
	all := filepath.Join(f.Root, "pods")
	if err := errors.Join(os.Mkdir(all, 0o755), os.Chmod(all, 0o755)); err != nil { // by an earlier version
		t.Fatal(err)
	}
	pod := with(podInfo())
	if err := f.Prepare(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{all, f.podDirectory(string(pod.UID)), filepath.Join(f.podDirectory(string(pod.UID)), "volumes")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o007 != 0 {
			t.Errorf("the mode of %s is %s, %v", path, info.Mode(), err)
		}
	}
}

func TestWhatAPodWritesOutsideOfItsVolumesIsCountedAndCut(t *testing.T) {
	f, _ := pretending(t)
	pod := with(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	pod.Spec.Containers[0].TerminationMessagePath = "/dev/termination-log"
	if err := f.Prepare(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	spec := specOf(pod, &pod.Spec.Containers[0])
	if err := f.Furnish(t.Context(), spec, nil); err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, m := range spec.Mounts {
		if m.Container == "/v" {
			continue
		}
		files++
		if err := os.WriteFile(m.Host, make([]byte, 3<<20), 0o644); err != nil { // as root in the container
			t.Fatal(err)
		}
	}
	if n := f.Written(string(pod.UID)); files != 2 || n < 6<<20 {
		t.Errorf("of %d files %d bytes are counted", files, n)
	}
	if err := f.Bound(string(pod.UID)); err != nil {
		t.Fatal(err)
	}
	if n := f.Written(string(pod.UID)); n > 2<<20 || n < 1<<20 {
		t.Errorf("%d bytes are left", n)
	}
}
