package demand

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Requests returns what a pod needs of its node: the sum over its containers, replaced by pod-level requests where
// there are any, plus its overhead.
func Requests(pod *corev1.Pod) Resources {
	return requests(pod, ResourcesOf)
}

// RequestList returns [Requests] as a resource list.
func RequestList(pod *corev1.Pod) corev1.ResourceList {
	return requests(pod, listOf).ResourceList
}

// SpecRequests returns [Requests] from the spec alone. A kubelet uses it when it has granted other amounts than the
// status already shows.
func SpecRequests(spec *corev1.PodSpec) Resources {
	return Requests(&corev1.Pod{Spec: *spec})
}

// The assumed requests of a container without requests, so that a hundred of them do not count as nothing in scores.
const (
	assumedMilliCPU = 100
	assumedMemory   = 200 << 20
)

// ScoredRequests returns the cpu and memory with which a pod is scored: [Requests], with an assumed amount for each
// container without a request.
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

// LimitList returns a pod's limits by resource. The overhead is added to those resources that have a limit.
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

// podLevel returns the amounts of those resources that can be requested at pod level.
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
