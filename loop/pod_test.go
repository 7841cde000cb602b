package loop_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/loop"
)

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func TestAPodIsActiveUntilItFinishesOrIsDeleted(t *testing.T) {
	for want, pods := range map[bool][]*corev1.Pod{
		true:  {pod("new"), pod("pending", phase(corev1.PodPending)), pod("running", phase(corev1.PodRunning))},
		false: {pod("done", phase(corev1.PodSucceeded)), pod("failed", phase(corev1.PodFailed)), pod("dying", phase(corev1.PodRunning), dying)},
	} {
		for _, p := range pods {
			if loop.PodActive(p) != want {
				t.Errorf("%s: active is %v", p.Name, !want)
			}
		}
	}
}

func TestAPodIsAvailableAfterItWasReadyLongEnough(t *testing.T) {
	now := time.Unix(1000, 0)
	ready := func(status corev1.ConditionStatus, ago int64) *corev1.Pod {
		return pod("p", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
				{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.Unix(1000-ago, 0)}}
		})
	}
	for _, c := range []struct {
		pod        *corev1.Pod
		minSeconds int32
		want       bool
	}{
		{pod("p"), 0, false},
		{ready(corev1.ConditionFalse, 100), 0, false},
		{ready(corev1.ConditionTrue, 0), 0, true},
		{ready(corev1.ConditionTrue, 9), 10, false},
		{ready(corev1.ConditionTrue, 10), 10, true},
	} {
		if got := loop.PodAvailable(c.pod, c.minSeconds, now); got != c.want {
			t.Errorf("available is %v for %+v after %d s", got, c.pod.Status.Conditions, c.minSeconds)
		}
	}
	if !loop.PodReady(ready(corev1.ConditionTrue, 0)) || loop.PodReady(ready(corev1.ConditionUnknown, 0)) {
		t.Error("PodReady does not follow the condition")
	}
}
