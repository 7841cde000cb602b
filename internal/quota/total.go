package quota

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Requests are what a container asks for.
func Requests(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Requests }

// Limits are what a container may take.
func Limits(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Limits }

// Sum says which resources a sum over containers has.
type Sum int

const (
	AnyContainer Sum = iota // those that any container names
	CommonOnly              // those that all containers name
)

// PodTotal is what a pod needs at a time: its containers together with the sidecars, or more if one of the steps before
// them needs more; and what the pod as a whole says, if it does.
func PodTotal(spec *corev1.PodSpec, of func(*corev1.ResourceRequirements) corev1.ResourceList, which Sum) corev1.ResourceList {
	total, counted := corev1.ResourceList{}, map[corev1.ResourceName]int{}
	for i := range spec.Containers {
		for name, q := range of(&spec.Containers[i].Resources) {
			add(total, name, q)
			counted[name]++
		}
	}
	if which == CommonOnly {
		maps.DeleteFunc(total, func(name corev1.ResourceName, _ resource.Quantity) bool { return counted[name] < len(spec.Containers) })
	}
	sidecars, most := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		always := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		step := sidecars.DeepCopy()
		for name, q := range of(&c.Resources) {
			add(step, name, q)
			if always {
				add(sidecars, name, q)
				add(total, name, q)
			}
		}
		raise(most, step)
	}
	raise(total, most)
	if spec.Resources != nil {
		maps.Copy(total, of(spec.Resources))
	}
	return total
}

func add(to corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) {
	sum := to[name].DeepCopy()
	sum.Add(q)
	to[name] = sum
}

func raise(to, least corev1.ResourceList) {
	for name, q := range least {
		if is, ok := to[name]; !ok || is.Cmp(q) < 0 {
			to[name] = q
		}
	}
}
