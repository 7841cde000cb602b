package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func defaultResources(r *corev1.ResourceRequirements) {
	roundUp(r.Limits)
	roundUp(r.Requests)
}

// roundUp takes quantities to whole thousandths: nothing finer is kept.
func roundUp(list corev1.ResourceList) {
	for name, q := range list {
		if r := q; !r.RoundUp(resource.Milli) {
			list[name] = r
		}
	}
}

// requestLimits makes the limit the request where only the limit is given.
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

// defaultPodResources completes requests for the pod as a whole: from its containers where they ask for a resource,
// else from the pod's own limits.
func defaultPodResources(s *corev1.PodSpec) {
	if s.Resources == nil || len(s.Resources.Limits) == 0 && len(s.Resources.Requests) == 0 {
		return
	}
	r := s.Resources
	requests := r.Requests
	if requests == nil {
		requests = corev1.ResourceList{}
	}
	for name, q := range containerRequests(s) {
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

// isPodResource tells which resources can be asked for by a pod as a whole.
func isPodResource(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || isHugePages(name)
}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func containerRequests(s *corev1.PodSpec) corev1.ResourceList {
	return together(s, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
}

func containerLimits(s *corev1.PodSpec) corev1.ResourceList {
	return together(s, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits })
}

// together sums what containers need at the same time: all that run side by side, or an init container together with
// the sidecars that were started before it, whichever is more.
func together(s *corev1.PodSpec, need func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
	sum, sidecars, peak := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range s.Containers {
		add(sum, need(&s.Containers[i]))
	}
	for i := range s.InitContainers {
		c := &s.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(sum, need(c))
			add(sidecars, need(c))
			atLeast(peak, sidecars)
			continue
		}
		now := sidecars.DeepCopy()
		add(now, need(c))
		atLeast(peak, now)
	}
	atLeast(sum, peak)
	return sum
}

func add(to, more corev1.ResourceList) {
	for name, q := range more {
		have := to[name]
		have.Add(q)
		to[name] = have
	}
}

func atLeast(list, floor corev1.ResourceList) {
	for name, q := range floor {
		if have, set := list[name]; !set || q.Cmp(have) > 0 {
			list[name] = q.DeepCopy()
		}
	}
}

// QOSClass tells how well a pod's containers said what they need. It never changes during a pod's life.
func QOSClass(s *corev1.PodSpec) corev1.PodQOSClass {
	if r := s.Resources; r != nil && (hasCompute(r.Requests) || hasCompute(r.Limits)) {
		return classOf([]*corev1.ResourceRequirements{r})
	}
	all := make([]*corev1.ResourceRequirements, 0, 8)
	for i := range s.Containers {
		all = append(all, &s.Containers[i].Resources)
	}
	for i := range s.InitContainers {
		all = append(all, &s.InitContainers[i].Resources)
	}
	return classOf(all)
}

var compute = [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

func hasCompute(l corev1.ResourceList) bool {
	for _, name := range compute {
		if q, ok := l[name]; ok && q.Sign() > 0 {
			return true
		}
	}
	return false
}

func classOf(all []*corev1.ResourceRequirements) corev1.PodQOSClass {
	asks, guaranteed := false, true
	var requests, limits [len(compute)]resource.Quantity
	for _, r := range all {
		for i, name := range compute {
			if q, ok := r.Requests[name]; ok && q.Sign() > 0 {
				asks = true
				requests[i].Add(q)
			}
			if q, ok := r.Limits[name]; ok && q.Sign() > 0 {
				asks = true
				limits[i].Add(q)
			} else {
				guaranteed = false
			}
		}
	}
	if !asks {
		return corev1.PodQOSBestEffort
	}
	for i := range compute {
		if requests[i].Cmp(limits[i]) != 0 {
			guaranteed = false
		}
	}
	if guaranteed {
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}
