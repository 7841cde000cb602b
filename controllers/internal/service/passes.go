package service

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Passes says that a write has failed for a reason that passes, of which users need not be told: somebody else has
// written meanwhile, or the namespace is being deleted.
func Passes(err error) bool {
	return apierrors.IsConflict(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
