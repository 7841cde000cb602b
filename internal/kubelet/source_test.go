package kubelet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/kubelet/source"
)

// claims are annotations that the kubelet gives to static pods. Anybody who creates a pod may write them too.
func claims(p *corev1.Pod) {
	p.Annotations = map[string]string{
		"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "x", "kubernetes.io/config.seen": "2026-01-01T00:00:00Z",
	}
}

func TestAPodOfTheAPIThatClaimsToBeStaticIsTreatedAsAnyOther(t *testing.T) {
	onNode(t, nil, func(t *testing.T, w *world) {
		w.create(podOf("elsewhere", claims, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }))
		w.create(podOf("here", claims))
		if got := w.phase("elsewhere"); got != "Failed NodeAffinity" {
			t.Errorf("the node's labels forbid the pod, and it is %q", got)
		}
		if got := w.phase("here"); got != "Running " {
			t.Errorf("the pod is %q", got)
		}
		if p := w.pod("here"); w.kubelet.config.Static(p) {
			t.Error("the pod counts as static")
		}
		p := w.pod("here")
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, new(int64(1))
		if _, err := w.kube.CoreV1().Pods("default").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if p := w.pod("here"); p != nil {
			t.Errorf("the deleted pod is still there: %+v", p.ObjectMeta)
		}
	})
}

// A pod that says it shows a static pod is not run, whatever node it names, and is removed where there is no such
// static pod.
func TestAPodThatClaimsToBeAMirrorPodIsRemoved(t *testing.T) {
	onNode(t, nil, func(t *testing.T, w *world) {
		w.kubelet.config.Set(source.File, []*corev1.Pod{static("real", "one")})
		for _, name := range []string{"alone", "real"} {
			p := podOf(name, func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "forged"} })
			if was := w.pod(name); was != nil {
				if err := w.kube.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			w.create(p)
		}
		pass(time.Minute)
		if p := w.pod("alone"); p != nil {
			t.Errorf("the mirror pod of nothing is still there: %+v", p.ObjectMeta)
		}
		if p := w.pod("real"); p == nil || p.Annotations[corev1.MirrorPodAnnotationKey] != "one" {
			t.Errorf("the mirror pod is %+v", p)
		}
	})
}
