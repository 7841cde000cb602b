package demand

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// QOSClass returns a pod's quality of service class: Guaranteed if the cpu and memory limits of all containers equal
// their requests, BestEffort if there are no requests and limits, and Burstable otherwise. It never changes during a
// pod's life.
func QOSClass(spec *corev1.PodSpec) corev1.PodQOSClass {
	if r := spec.Resources; r != nil && (hasCompute(r.Requests) || hasCompute(r.Limits)) {
		return classOf([]*corev1.ResourceRequirements{r})
	}
	all := make([]*corev1.ResourceRequirements, 0, 8)
	for i := range spec.Containers {
		all = append(all, &spec.Containers[i].Resources)
	}
	for i := range spec.InitContainers {
		all = append(all, &spec.InitContainers[i].Resources)
	}
	return classOf(all)
}

var compute = [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

func hasCompute(list corev1.ResourceList) bool {
	for _, name := range compute {
		if positive(list, name) {
			return true
		}
	}
	return false
}

func positive(list corev1.ResourceList, name corev1.ResourceName) bool {
	q, ok := list[name]
	return ok && q.Sign() > 0
}

func classOf(all []*corev1.ResourceRequirements) corev1.PodQOSClass {
	some, guaranteed := false, true
	var requests, limits [len(compute)]resource.Quantity
	for _, r := range all {
		for i, name := range compute {
			if positive(r.Requests, name) {
				some = true
				requests[i].Add(r.Requests[name])
			}
			if positive(r.Limits, name) {
				some = true
				limits[i].Add(r.Limits[name])
			} else {
				guaranteed = false
			}
		}
	}
	for i := range compute {
		guaranteed = guaranteed && requests[i].Cmp(limits[i]) == 0
	}
	switch {
	case !some:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}
