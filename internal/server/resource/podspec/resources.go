package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace/millrace/internal/demand"
)

func defaultResources(r *corev1.ResourceRequirements) {
	roundUp(r.Limits)
	roundUp(r.Requests)
}

// roundUp rounds quantities up to thousandths: nothing finer is stored.
func roundUp(list corev1.ResourceList) {
	for name, q := range list {
		if r := q; !r.RoundUp(resource.Milli) {
			list[name] = r
		}
	}
}

// requestLimits sets a missing request to the limit.
func requestLimits(r *corev1.ResourceRequirements) {
	if len(r.Limits) == 0 {
		return
	}
	if r.Requests == nil {
		r.Requests = make(corev1.ResourceList, len(r.Limits))
	}
	for name, limit := range r.Limits {
		if _, set := r.Requests[name]; !set {
			r.Requests[name] = limit.DeepCopy()
		}
	}
}

// defaultPodResources sets missing pod-level requests: to the containers' sum if they request the resource, otherwise
// to the pod's limit.
func defaultPodResources(s *corev1.PodSpec) {
	if s.Resources == nil || len(s.Resources.Limits) == 0 && len(s.Resources.Requests) == 0 {
		return
	}
	r := s.Resources
	requests := r.Requests
	if requests == nil {
		requests = corev1.ResourceList{}
	}
	for name, q := range demand.ContainerRequests(s) {
		if _, set := requests[name]; !set && isPodResource(name) && !isHugePages(name) {
			requests[name] = q
		}
	}
	for name, limit := range r.Limits {
		if _, set := requests[name]; !set && isPodResource(name) {
			requests[name] = limit.DeepCopy()
		}
	}
	if len(requests) > 0 {
		r.Requests = requests
	}
}

// isPodResource reports whether a resource can be requested at pod level.
func isPodResource(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || isHugePages(name)
}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}
