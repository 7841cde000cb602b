package furnish

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// claimedLocal returns a Furnisher whose cluster has the claim c, bound to a local volume, and a pod that uses it.
func claimedLocal(t *testing.T, path string, mode corev1.PersistentVolumeMode) (*Furnisher, *corev1.Pod) {
	t.Helper()
	kube := fake.NewClientset(
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "c"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
			ClaimRef:   &corev1.ObjectReference{Namespace: "default", Name: "c", UID: "c"},
			VolumeMode: &mode, PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
		}},
	)
	pod := subject()
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
	return New(Options{Root: t.TempDir(), Kube: kube}), pod
}

// blockDevice returns a block device of the machine.
func blockDevice(t *testing.T) string {
	t.Helper()
	all, err := filepath.Glob("/dev/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if info, err := os.Stat(path); err == nil && info.Mode()&(fs.ModeDevice|fs.ModeCharDevice) == fs.ModeDevice {
			return path
		}
	}
	t.Skip("this machine has no block device")
	return ""
}

func TestAContainerGetsTheDeviceOfAVolume(t *testing.T) {
	device := blockDevice(t)
	f, pod := claimedLocal(t, device, corev1.PersistentVolumeBlock)
	pod.Spec.Containers = []corev1.Container{{Name: "c", VolumeDevices: []corev1.VolumeDevice{{Name: "v", DevicePath: "/dev/disk"}}}}
	if err := f.Prepare(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	spec := specOf(pod, &pod.Spec.Containers[0])
	if err := f.Furnish(t.Context(), spec, nil); err != nil {
		t.Fatal(err)
	}
	if len(spec.Blocks) != 1 || spec.Blocks[0].Host != device || spec.Blocks[0].Container != "/dev/disk" || spec.Blocks[0].ReadOnly {
		t.Errorf("the container gets %+v", spec.Blocks)
	}
}

func TestAVolumeIsUsedInItsMode(t *testing.T) {
	mount := corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/data"}}}
	device := corev1.Container{Name: "c", VolumeDevices: []corev1.VolumeDevice{{Name: "v", DevicePath: "/dev/disk"}}}
	for _, test := range []struct {
		mode      corev1.PersistentVolumeMode
		container corev1.Container
		want      string
	}{
		{corev1.PersistentVolumeBlock, mount, "volume v has volumeMode Block, but is specified in volumeMounts"},
		{corev1.PersistentVolumeFilesystem, device, "volume v has volumeMode Filesystem, but is specified in volumeDevices"},
	} {
		f, pod := claimedLocal(t, t.TempDir(), test.mode)
		pod.Spec.Containers = []corev1.Container{test.container}
		if err := f.Prepare(t.Context(), pod); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("prepare says %v, want %s", err, test.want)
		}
	}
}

func TestAFileIsNoDevice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, pod := claimedLocal(t, path, corev1.PersistentVolumeBlock)
	pod.Spec.Containers = []corev1.Container{{Name: "c", VolumeDevices: []corev1.VolumeDevice{{Name: "v", DevicePath: "/dev/disk"}}}}
	if err := f.Prepare(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := f.Furnish(t.Context(), specOf(pod, &pod.Spec.Containers[0]), nil); err == nil || !strings.Contains(err.Error(), "is not a block device") {
		t.Errorf("furnish says %v", err)
	}
}
