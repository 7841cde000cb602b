package kubelet

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/kubelet/runtimetest"
)

func TestANodeWithoutANetworkForPodsIsNotReady(t *testing.T) {
	const problem = "container runtime network not ready: NetworkReady=false"
	onNode(t, func(w *world) { w.runtime.SetAnswers(runtimetest.Answers{Network: problem}) }, func(t *testing.T, w *world) {
		pass(2 * healthEvery)
		if ready := w.condition(corev1.NodeReady); ready.Status != corev1.ConditionFalse || ready.Reason != "KubeletNotReady" || !strings.Contains(ready.Message, problem) {
			t.Errorf("without a network: %+v", ready)
		}
		w.runtime.SetAnswers(runtimetest.Answers{})
		pass(2 * healthEvery)
		if ready := w.condition(corev1.NodeReady); ready.Status != corev1.ConditionTrue {
			t.Errorf("with a network: %+v", ready)
		}
	})
}

// condition returns a condition of the node.
func (w *world) condition(kind corev1.NodeConditionType) corev1.NodeCondition {
	w.t.Helper()
	n, err := w.kube.CoreV1().Nodes().Get(w.t.Context(), "node", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.NodeCondition{}
}

func TestAPodForAnotherOperatingSystemIsRejected(t *testing.T) {
	onNode(t, nil, func(t *testing.T, w *world) {
		w.create(podOf("p", func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: "plan9"} }))
		if got := w.phase("p"); got != "Failed PodOSNotSupported" {
			t.Errorf("the pod is %s", got)
		}
	})
}
