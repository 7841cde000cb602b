// Package fsgroup gives what is in a volume to the fsGroup of a pod.
//
// Guarantees: symbolic links are not followed, whatever containers do to the volume meanwhile, so that nothing outside
// of the volume is given away; and no permission is taken away.
package fsgroup

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Of returns the fsGroup of a pod, or nil.
func Of(pod *corev1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

// Give gives everything in a volume to a group. With the pod's policy OnRootMismatch nothing is done if the root of the
// volume belongs to the group. The path of the volume itself is the caller's: a link in it is followed.
func Give(volume string, group int64, pod *corev1.Pod) error {
	w := walk{group: int(group), lazy: onRootMismatch(pod)}
	if err := w.volume(volume); err != nil {
		return fmt.Errorf("give a volume to group %d: %w", group, err)
	}
	return nil
}

func onRootMismatch(pod *corev1.Pod) bool {
	c := pod.Spec.SecurityContext
	return c != nil && c.FSGroupChangePolicy != nil && *c.FSGroupChangePolicy == corev1.FSGroupChangeOnRootMismatch
}
