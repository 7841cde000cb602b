package worker

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// resizable lists the resources that may change while a container runs.
var resizable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// sizes are the resources of containers, by container name.
type sizes map[string]corev1.ResourceRequirements

// sizing is a resize that is under way: the pod asks for something that is not granted yet, or was granted something
// that not all containers have yet. A kubelet that restarts decides again, from the reported statuses.
type sizing struct {
	granted, inForce sizes
	// replaced has the runs that must end so that their containers get the granted resources.
	replaced map[string]string
	// pending says why the wanted resources are not granted; failed says why the granted ones could not be applied.
	pending, failed *finding
	// reported is set once an event has said that the resize has begun.
	reported bool
}

// apply returns the pod with the granted resources.
func (z *sizing) apply(pod *corev1.Pod) *corev1.Pod {
	with := *pod
	for _, list := range []*[]corev1.Container{&with.Spec.Containers, &with.Spec.InitContainers} {
		all := append([]corev1.Container(nil), *list...)
		for i := range all {
			if r, ok := z.granted[all[i].Name]; ok {
				all[i].Resources = resized(all[i].Resources, r)
			}
		}
		*list = all
	}
	return &with
}

// resized returns r with the resizable resources taken from granted.
func resized(r, granted corev1.ResourceRequirements) corev1.ResourceRequirements {
	with := func(all, from corev1.ResourceList) corev1.ResourceList {
		all = maps.Clone(all)
		for _, name := range resizable {
			delete(all, name)
			if q, ok := from[name]; ok {
				if all == nil {
					all = corev1.ResourceList{}
				}
				all[name] = q
			}
		}
		return all
	}
	r.Requests, r.Limits = with(r.Requests, granted.Requests), with(r.Limits, granted.Limits)
	return r
}

// changed returns the resources that differ.
func changed(a, b corev1.ResourceRequirements) []corev1.ResourceName {
	var all []corev1.ResourceName
	for _, name := range resizable {
		if !equal(a.Requests, b.Requests, name) || !equal(a.Limits, b.Limits, name) {
			all = append(all, name)
		}
	}
	return all
}

func equal(a, b corev1.ResourceList, name corev1.ResourceName) bool {
	x, inA := a[name]
	y, inB := b[name]
	return inA == inB && x.Cmp(y) == 0
}

func needsRestart(c *corev1.Container, differs []corev1.ResourceName) bool {
	for _, p := range c.ResizePolicy {
		for _, name := range differs {
			if p.ResourceName == name && p.RestartPolicy == corev1.RestartContainer {
				return true
			}
		}
	}
	return false
}

// everywhere reports whether all containers have the granted resources.
func (z *sizing) everywhere() bool {
	for name := range z.granted {
		if len(changed(z.granted[name], z.inForce[name])) > 0 {
			return false
		}
	}
	return true
}
