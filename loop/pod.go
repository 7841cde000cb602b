package loop

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// PodFinished reports whether a pod has succeeded or failed.
func PodFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// PodActive reports whether a pod has neither finished nor is being deleted.
func PodActive(pod *corev1.Pod) bool {
	return !PodFinished(pod) && pod.DeletionTimestamp == nil
}

// PodReady reports whether a pod is ready.
func PodReady(pod *corev1.Pod) bool {
	_, ready := PodReadySince(pod)
	return ready
}

// PodReadySince returns since when a pod is ready, if it is.
func PodReadySince(pod *corev1.Pod) (time.Time, bool) {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.LastTransitionTime.Time, c.Status == corev1.ConditionTrue
		}
	}
	return time.Time{}, false
}

// PodAvailable reports whether a pod has been ready for minReadySeconds.
func PodAvailable(pod *corev1.Pod, minReadySeconds int32, now time.Time) bool {
	since, ready := PodReadySince(pod)
	if !ready || minReadySeconds == 0 {
		return ready
	}
	return !since.IsZero() && !since.Add(time.Duration(minReadySeconds)*time.Second).After(now)
}
