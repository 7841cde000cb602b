package kubelet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/kubelet/source"
)

// static returns a static pod.
func static(name, hash string) *corev1.Pod {
	return podOf(name, func(p *corev1.Pod) {
		p.UID = p.UID + "-" + "static"
		p.Annotations = map[string]string{"kubernetes.io/config.source": "file", hashAnnotation: hash}
	})
}

func TestStaticPodsHaveUpToDateMirrorPods(t *testing.T) {
	onNode(t, nil, func(t *testing.T, w *world) {
		mirrored := func() string {
			if p := w.pod("web"); p != nil {
				return p.Annotations[corev1.MirrorPodAnnotationKey] + " " + string(p.Status.Phase)
			}
			return "gone"
		}
		steps := []struct {
			name string
			do   func()
			want string
		}{
			{"a manifest comes", func() { w.kubelet.config.Set(source.File, []*corev1.Pod{static("web", "one")}) }, "one Running"},
			{"somebody deletes the mirror", func() {
				if err := w.kube.CoreV1().Pods("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}, "one Running"},
			{"the manifest changes", func() {
				changed := static("web", "two")
				changed.UID += "-changed"
				w.kubelet.config.Set(source.File, []*corev1.Pod{changed})
			}, "two Running"},
			{"the manifest goes", func() { w.kubelet.config.Set(source.File, nil) }, "gone"},
		}
		for _, s := range steps {
			s.do()
			pass(time.Minute)
			if got := mirrored(); got != s.want {
				t.Fatalf("%s: the mirror is %q, want %q", s.name, got, s.want)
			}
		}
	})
}

func TestAnOrdinaryPodIsNotTakenForAMirrorPod(t *testing.T) {
	onNode(t, nil, func(t *testing.T, w *world) {
		w.create(podOf("web"))
		w.kubelet.config.Set(source.File, []*corev1.Pod{static("web", "one")})
		pass(time.Minute)
		if p := w.pod("web"); p == nil || p.UID != "uid-web" || p.Annotations[corev1.MirrorPodAnnotationKey] != "" {
			t.Errorf("%+v", p)
		}
	})
}
