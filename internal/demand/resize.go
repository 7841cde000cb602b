package demand

import (
	corev1 "k8s.io/api/core/v1"
)

// During a resize of a pod its node must hold the largest of three amounts: the requested one, the one that the kubelet
// has granted, and the one that the containers have. A resize that the kubelet has refused as infeasible does not
// count.

// reader reads a container's amounts from its spec or its status, which is nil if there is none.
type reader func(*corev1.Container, *corev1.ContainerStatus) corev1.ResourceList

func requestsIn(c *corev1.Container, _ *corev1.ContainerStatus) corev1.ResourceList {
	return c.Resources.Requests
}

func limitsIn(c *corev1.Container, _ *corev1.ContainerStatus) corev1.ResourceList {
	return c.Resources.Limits
}

func requestsGranted(_ *corev1.Container, s *corev1.ContainerStatus) corev1.ResourceList {
	return s.AllocatedResources
}

func requestsHad(_ *corev1.Container, s *corev1.ContainerStatus) corev1.ResourceList {
	if s.Resources == nil || s.Resources.Requests == nil {
		return s.AllocatedResources
	}
	return s.Resources.Requests
}

func limitsHad(_ *corev1.Container, s *corev1.ContainerStatus) corev1.ResourceList {
	if s.Resources == nil {
		return nil
	}
	return s.Resources.Limits
}

// largest returns the larger of the amounts in the spec and those in the statuses.
func largest[T any, A amounts[T]](pod *corev1.Pod, asked reader, statuses []reader, convert func(corev1.ResourceList) T) T {
	sum := total[T, A](&pod.Spec, func(c *corev1.Container) T { return convert(asked(c, nil)) })
	if !resizing(pod, asked, statuses) {
		return sum
	}
	refused := resizeInfeasible(pod)
	if refused {
		var none T
		sum = none
	}
	for _, read := range statuses {
		A(&sum).RaiseTo(total[T, A](&pod.Spec, func(c *corev1.Container) T {
			if s := containerStatus(pod, c.Name); s != nil {
				if said := read(c, s); said != nil {
					return convert(said)
				}
			}
			if refused {
				return convert(nil)
			}
			return convert(asked(c, nil))
		}))
	}
	return sum
}

// resizing reports whether a status differs from the spec, or may be the only one that counts.
func resizing(pod *corev1.Pod, asked reader, statuses []reader) bool {
	if resizeInfeasible(pod) {
		return true
	}
	if len(pod.Status.ContainerStatuses)+len(pod.Status.InitContainerStatuses) == 0 {
		return false
	}
	differs := func(containers []corev1.Container) bool {
		for i := range containers {
			c := &containers[i]
			s := containerStatus(pod, c.Name)
			if s == nil {
				continue
			}
			for _, read := range statuses {
				if said := read(c, s); said != nil && !sameAmounts(said, asked(c, nil)) {
					return true
				}
			}
		}
		return false
	}
	return differs(pod.Spec.Containers) || differs(pod.Spec.InitContainers)
}

func containerStatus(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			if statuses[i].Name == name {
				return &statuses[i]
			}
		}
	}
	return nil
}

func resizeInfeasible(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodResizePending {
			return c.Reason == corev1.PodReasonInfeasible
		}
	}
	return false
}
