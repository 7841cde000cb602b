package demand

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Requests is what a pod needs of its node: the sum over its containers, with
// those amounts that the pod asks for as a whole in place of the sum, and its overhead.
func Requests(pod *corev1.Pod) Resources {
	return requests(pod, ResourcesOf)
}

// RequestList is [Requests] as a resource list.
func RequestList(pod *corev1.Pod) corev1.ResourceList {
	return requests(pod, listOf).ResourceList
}

// SpecRequests is [Requests] by the spec alone: a kubelet that has granted other
// amounts than the status says yet asks this.
func SpecRequests(spec *corev1.PodSpec) Resources {
	return Requests(&corev1.Pod{Spec: *spec})
}

// What a container that names no request is scored with, so that a hundred of
// them do not count as nothing.
const (
	assumedMilliCPU = 100
	assumedMemory   = 200 << 20
)

// ScoredRequests is the cpu and memory that a pod is scored with: [Requests], with
// an assumed amount for each container that names none.
func ScoredRequests(pod *corev1.Pod) Resources {
	r := requests(pod, func(list corev1.ResourceList) Resources {
		r := ResourcesOf(list)
		if _, ok := list[corev1.ResourceCPU]; !ok {
			r.MilliCPU = assumedMilliCPU
		}
		if _, ok := list[corev1.ResourceMemory]; !ok {
			r.Memory = assumedMemory
		}
		return r
	})
	r.Extended, r.EphemeralStorage = nil, 0
	return r
}

var requestStatuses = []reader{requestsGranted, requestsHad}

func requests[T any, A amounts[T]](pod *corev1.Pod, convert func(corev1.ResourceList) T) T {
	sum := largest[T, A](pod, requestsIn, requestStatuses, convert)
	if r := pod.Spec.Resources; r != nil {
		A(&sum).replace(podLevel(r.Requests))
	}
	A(&sum).add(pod.Spec.Overhead)
	return sum
}

// LimitList is what a pod may use at most, by resource. The overhead is added to those that have a limit.
func LimitList(pod *corev1.Pod) corev1.ResourceList {
	sum := largest(pod, limitsIn, []reader{limitsHad}, listOf)
	if r := pod.Spec.Resources; r != nil {
		sum.replace(podLevel(r.Limits))
	}
	for name, quantity := range pod.Spec.Overhead {
		if limit, ok := sum.ResourceList[name]; ok && !limit.IsZero() {
			limit = limit.DeepCopy()
			limit.Add(quantity)
			sum.set(name, limit)
		}
	}
	return sum.ResourceList
}

// podLevel returns those amounts that a pod can ask for as a whole.
func podLevel(list corev1.ResourceList) corev1.ResourceList {
	level := corev1.ResourceList{}
	for name, quantity := range list {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory ||
			strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			level[name] = quantity
		}
	}
	return level
}
