package cluster

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// What a container that names no request is scored with, so that a hundred of
// them are not taken for nothing.
const (
	assumedMilliCPU = 100
	assumedMemory   = 200 << 20
)

// requestsOf returns what a pod needs of its node, and the cpu and memory that
// it is scored with.
//
// Containers run together, so they add up. Init containers run before them one
// after the other, so the largest counts; a sidecar stays, so it adds to all
// that come after it. What the pod itself asks for replaces the sum.
func requestsOf(pod *corev1.Pod) (requests, scored Resources) {
	requests = sumOf(pod, func(c *corev1.Container) Resources { return containerRequests(pod, c) })
	scored = sumOf(pod, func(c *corev1.Container) Resources { return scoredRequests(pod, c) })
	if pod.Spec.Resources != nil {
		whole := podLevelRequests(pod)
		replace(&requests, whole)
		replace(&scored, whole)
	}
	overhead := ResourcesOf(pod.Spec.Overhead)
	requests.add(overhead)
	scored.add(overhead)
	scored.Extended, scored.EphemeralStorage = nil, 0
	return requests, scored
}

func sumOf(pod *corev1.Pod, of func(*corev1.Container) Resources) Resources {
	var running, sidecars, starting Resources
	for i := range pod.Spec.Containers {
		running.add(of(&pod.Spec.Containers[i]))
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		need := of(c)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			running.add(need)
			sidecars.add(need)
			starting.raiseTo(sidecars)
			continue
		}
		need.add(sidecars)
		starting.raiseTo(need)
	}
	running.raiseTo(starting)
	return running
}

// containerRequests is what the container asks for. While a resize of a placed
// pod is under way, the node must hold the larger of what is asked for and what
// it has; a resize that the node has refused for good does not count.
func containerRequests(pod *corev1.Pod, c *corev1.Container) Resources {
	asked := ResourcesOf(c.Resources.Requests)
	if pod.Spec.NodeName == "" {
		return asked
	}
	status := containerStatus(pod, c.Name)
	if status == nil {
		return asked
	}
	had := ResourcesOf(status.AllocatedResources)
	if status.Resources != nil {
		had.raiseTo(ResourcesOf(status.Resources.Requests))
	}
	if !had.IsZero() && resizeInfeasible(pod) {
		return had
	}
	asked.raiseTo(had)
	return asked
}

func scoredRequests(pod *corev1.Pod, c *corev1.Container) Resources {
	r := containerRequests(pod, c)
	if _, ok := c.Resources.Requests[corev1.ResourceCPU]; !ok && r.MilliCPU == 0 {
		r.MilliCPU = assumedMilliCPU
	}
	if _, ok := c.Resources.Requests[corev1.ResourceMemory]; !ok && r.Memory == 0 {
		r.Memory = assumedMemory
	}
	return r
}

func podLevelRequests(pod *corev1.Pod) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, quantity := range pod.Spec.Resources.Requests {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory ||
			strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			list[name] = quantity
		}
	}
	return list
}

func replace(r *Resources, whole corev1.ResourceList) {
	amounts := ResourcesOf(whole)
	if _, ok := whole[corev1.ResourceCPU]; ok {
		r.MilliCPU = amounts.MilliCPU
	}
	if _, ok := whole[corev1.ResourceMemory]; ok {
		r.Memory = amounts.Memory
	}
	for name, amount := range amounts.Extended {
		r.setExtended(name, amount)
	}
}

func containerStatus(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

func resizeInfeasible(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodResizePending {
			return c.Reason == corev1.PodReasonInfeasible
		}
	}
	return false
}
