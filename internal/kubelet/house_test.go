package kubelet

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

func TestUnwantedPodsAreStoppedAndRemovedCompletely(t *testing.T) {
	stray := podOf("stray")
	onNode(t, func(w *world) {
		if _, err := w.runtime.RunSandbox(t.Context(), &container.SandboxSpec{Pod: stray}); err != nil {
			t.Fatal(err)
		}
	}, func(t *testing.T, w *world) {
		w.create(podOf("web", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
		}))
		directory, logs := w.kubelet.furnish.Directory("uid-web", "scratch"), filepath.Join(w.kubelet.options.Logs, "default_gone_uid-gone")
		if _, err := os.Stat(directory); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(logs, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := w.kube.CoreV1().Pods("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Minute)
		if pods, err := w.runtime.Pods(t.Context()); err != nil || len(pods) != 0 {
			t.Errorf("%d pods are left, %v", len(pods), err)
		}
		for _, path := range []string{directory, logs} {
			if _, err := os.Stat(path); !os.IsNotExist(err) {
				t.Errorf("%s is left: %v", path, err)
			}
		}
	})
}

func TestNothingIsRemovedBeforeTheWantedPodsAreKnown(t *testing.T) {
	kept := podOf("kept")
	onNode(t, func(w *world) {
		if _, err := w.runtime.RunSandbox(t.Context(), &container.SandboxSpec{Pod: kept}); err != nil {
			t.Fatal(err)
		}
		if err := w.kube.Tracker().Add(kept); err != nil {
			t.Fatal(err)
		}
	}, func(t *testing.T, w *world) {
		pass(2 * time.Minute)
		pods, err := w.runtime.Pods(t.Context())
		if err != nil || len(pods) != 1 || w.phase("kept") != "Running " {
			t.Errorf("%d pods, %v; the pod is %s", len(pods), err, w.phase("kept"))
		}
	})
}
