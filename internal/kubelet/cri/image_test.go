package cri

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

func TestTheRuntimeMountsTheImagesOfVolumes(t *testing.T) {
	spec := &container.Spec{
		Pod: &corev1.Pod{}, Container: &corev1.Container{Name: "main"}, Sandbox: &container.SandboxSpec{Pod: &corev1.Pod{}},
		VolumeImages: map[string]string{"b": "sha256:2", "a": "sha256:1"},
		Mounts:       []container.Mount{{Container: "/data", Image: "sha256:1", ImagePath: "part", ReadOnly: true}, {Container: "/host", Host: "/srv"}},
	}
	r := newFake(t, fault{}).open()
	config := r.config(spec, "", nil)
	if m := config.Mounts[0]; m.Image.GetImage() != "sha256:1" || m.ImageSubPath != "part" || !m.Readonly || m.HostPath != "" {
		t.Errorf("the image is mounted as %v", m)
	}
	if m := config.Mounts[1]; m.Image != nil || m.HostPath != "/srv" {
		t.Errorf("the directory is mounted as %v", m)
	}
	run := r.runOf(t.Context(), &runtimeapi.Container{Annotations: config.Annotations})
	if !slices.Equal(run.VolumeImages, []string{"sha256:1", "sha256:2"}) {
		t.Errorf("the images in use are %v", run.VolumeImages)
	}
}
