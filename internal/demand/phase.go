package demand

import corev1 "k8s.io/api/core/v1"

// Finished reports whether a phase is one that a pod never leaves: it has succeeded or failed, and needs nothing more.
func Finished(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}
