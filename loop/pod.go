package loop

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// PodFinished tells whether a pod has run to its end.
func PodFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// PodActive tells whether a pod runs or will run: it has neither finished nor
// is it being deleted.
func PodActive(pod *corev1.Pod) bool {
	return !PodFinished(pod) && pod.DeletionTimestamp == nil
}

// PodReady tells whether a pod serves.
func PodReady(pod *corev1.Pod) bool {
	_, ready := PodReadySince(pod)
	return ready
}

// PodReadySince tells since when a pod serves, if it does.
func PodReadySince(pod *corev1.Pod) (time.Time, bool) {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.LastTransitionTime.Time, c.Status == corev1.ConditionTrue
		}
	}
	return time.Time{}, false
}

// PodAvailable tells whether a pod has served for minReadySeconds.
func PodAvailable(pod *corev1.Pod, minReadySeconds int32, now time.Time) bool {
	since, ready := PodReadySince(pod)
	if !ready || minReadySeconds == 0 {
		return ready
	}
	return !since.IsZero() && !since.Add(time.Duration(minReadySeconds)*time.Second).After(now)
}
