package demand

import (
	corev1 "k8s.io/api/core/v1"
)

// ContainerRequests returns the sum of the containers' requests, and ignores pod-level requests.
func ContainerRequests(spec *corev1.PodSpec) corev1.ResourceList {
	return total(spec, func(c *corev1.Container) list { return listOf(c.Resources.Requests) }).ResourceList
}

// ContainerLimits returns the sum of the containers' limits, and ignores pod-level limits.
func ContainerLimits(spec *corev1.PodSpec) corev1.ResourceList {
	return total(spec, func(c *corev1.Container) list { return listOf(c.Resources.Limits) }).ResourceList
}

// Asked returns the requests and limits in a pod's spec, without overhead and without regard to its status. A
// LimitRange is applied to these.
func Asked(spec *corev1.PodSpec) (requests, limits corev1.ResourceList) {
	asked, limited := listOf(ContainerRequests(spec)), listOf(ContainerLimits(spec))
	if r := spec.Resources; r != nil {
		asked.replace(podLevel(r.Requests))
		limited.replace(podLevel(r.Limits))
	}
	return asked.ResourceList, limited.ResourceList
}
