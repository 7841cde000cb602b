package demand

import (
	corev1 "k8s.io/api/core/v1"
)

// ContainerRequests is what the containers of a pod ask for together, whatever the pod asks for as a whole.
func ContainerRequests(spec *corev1.PodSpec) corev1.ResourceList {
	return total(spec, func(c *corev1.Container) list { return listOf(c.Resources.Requests) }).ResourceList
}

// ContainerLimits is what the containers of a pod may use together, whatever the pod is limited to as a whole.
func ContainerLimits(spec *corev1.PodSpec) corev1.ResourceList {
	return total(spec, func(c *corev1.Container) list { return listOf(c.Resources.Limits) }).ResourceList
}

// Asked returns what a pod's spec asks for and what it is limited to, without
// overhead and whatever its status says: what a LimitRange looks at.
func Asked(spec *corev1.PodSpec) (requests, limits corev1.ResourceList) {
	asked, limited := listOf(ContainerRequests(spec)), listOf(ContainerLimits(spec))
	if r := spec.Resources; r != nil {
		asked.replace(podLevel(r.Requests))
		limited.replace(podLevel(r.Limits))
	}
	return asked.ResourceList, limited.ResourceList
}
