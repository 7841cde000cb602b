package service

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Passes reports whether a write has failed for a temporary reason of which users need not be told: a conflict, or a
// namespace that is being deleted.
func Passes(err error) bool {
	return apierrors.IsConflict(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
