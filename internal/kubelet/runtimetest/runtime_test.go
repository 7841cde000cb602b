package runtimetest_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/kubelet"
	"github.com/millrace/millrace/internal/kubelet/container/conformance"
	"github.com/millrace/millrace/internal/kubelet/hollow"
	"github.com/millrace/millrace/internal/kubelet/runtimetest"
)

var _ kubelet.Runtime = (*runtimetest.Runtime)(nil)

func TestConformance(t *testing.T) {
	r := runtimetest.New()
	pod := func(annotations map[string]string) func() *corev1.Pod {
		return func() *corev1.Pod {
			return &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", Annotations: annotations},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/app:1"}}},
			}
		}
	}
	conformance.Run(t, &conformance.Subject{
		Runtime: r, Images: r, Image: "example.com/app:1", Timeout: 30 * time.Second,
		Running: pod(nil), Ending: pod(map[string]string{hollow.Prefix + "run-for": "100ms", hollow.Prefix + "exit-code": "3"}),
	})
}
