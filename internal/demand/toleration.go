package demand

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// Tolerates reports whether one of the tolerations tolerates a taint.
func Tolerates(tolerations []corev1.Toleration, taint *corev1.Taint) bool {
	for i := range tolerations {
		if tolerations[i].ToleratesTaint(klog.Logger{}, taint, true) {
			return true
		}
	}
	return false
}

// Untolerated returns the first taint with one of the effects that is not tolerated, or nil.
func Untolerated(tolerations []corev1.Toleration, taints []corev1.Taint, effects ...corev1.TaintEffect) *corev1.Taint {
	for i := range taints {
		for _, effect := range effects {
			if taints[i].Effect == effect && !Tolerates(tolerations, &taints[i]) {
				return &taints[i]
			}
		}
	}
	return nil
}
