package kubelet

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/hollow"
)

// TestEachEndOfAContainerIsCountedOnce also holds for runs between which the status never said "terminated", and for a
// status that is written often.
func TestEachEndOfAContainerIsCountedOnce(t *testing.T) {
	onNode(t, nil, func(t *testing.T, w *world) {
		w.create(podOf("p", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "web:1"}}
			p.Annotations = map[string]string{hollow.Prefix + "crashes": "2", hollow.Prefix + "crash-code": "139"}
		}))
		pass(10 * time.Minute)
		want := []string{
			`kubelet_terminated_containers_total{container_type="container",exit_code="139",reason="Error"} 2`,
			`kubelet_terminated_containers_total{container_type="init_container",exit_code="0",reason="Completed"} 1`,
		}
		if got := w.metrics("kubelet_terminated_containers_total{"); !slices.Equal(got, want) {
			t.Errorf("after two crashes: %q, want %q", got, want)
		}
	})
}

// metrics returns the lines of the kubelet's metrics that begin with a text.
func (w *world) metrics(begin string) (lines []string) {
	answer := httptest.NewRecorder()
	served{w.kubelet}.metrics().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, begin) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
