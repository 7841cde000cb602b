package container

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// IDs are the users and groups of the machine that a pod with a user namespace has: those from First on are the pod's
// from 0 on.
type IDs struct{ First, Length uint32 }

// NoUserNamespaces is returned when a pod needs a user namespace and cannot have one.
type NoUserNamespaces struct{ Problem string }

func (e *NoUserNamespaces) Error() string {
	return fmt.Sprintf("the pod has hostUsers set to false, and cannot have a user namespace: %s", e.Problem)
}

// OwnUsers reports whether a pod must run in a user namespace. Much is allowed to such a pod (to be root, to see all of
// /proc), so it must never run without one.
func OwnUsers(pod *corev1.Pod) bool { return pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers }
