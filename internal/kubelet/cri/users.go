package cri

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
)

// errHostUsers refuses a pod that Pod Security has let pass because its users are none of the machine's.
var errHostUsers = errors.New("the pod has hostUsers set to false, and this node cannot give pods user namespaces")

// ownUsers reports whether a pod must run in a user namespace. Much is allowed to such a pod (root, an unmasked /proc) that must never be without one.
func ownUsers(pod *corev1.Pod) bool { return pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers }
