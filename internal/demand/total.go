package demand

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// amounts is what total needs of each form of amounts.
type amounts[T any] interface {
	*T
	Add(T)
	RaiseTo(T)
	add(corev1.ResourceList)
	replace(corev1.ResourceList)
}

// total computes what the containers of a pod need at any one time.
//
// Containers run together, so their amounts are added. Init containers run before them one after the other, so the
// largest counts. A sidecar keeps running, so it is added to all containers that start after it.
func total[T any, A amounts[T]](spec *corev1.PodSpec, of func(*corev1.Container) T) T {
	var running T
	for i := range spec.Containers {
		A(&running).Add(of(&spec.Containers[i]))
	}
	if len(spec.InitContainers) == 0 {
		return running
	}
	var sidecars, starting T
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		need := of(c)
		if Sidecar(c) {
			A(&running).Add(need)
			A(&sidecars).Add(need)
			A(&starting).RaiseTo(sidecars)
			continue
		}
		var step T
		A(&step).Add(sidecars)
		A(&step).Add(need)
		A(&starting).RaiseTo(step)
	}
	A(&running).RaiseTo(starting)
	return running
}

// Sidecar reports whether an init container keeps running beside the pod's other containers.
func Sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// list is a resource list that implements amounts. It copies quantities before it changes them.
type list struct{ corev1.ResourceList }

func listOf(l corev1.ResourceList) list { return list{l} }

// Add adds other to l.
func (l *list) Add(other list) {
	for name, quantity := range other.ResourceList {
		sum := l.ResourceList[name].DeepCopy()
		sum.Add(quantity)
		l.set(name, sum)
	}
}

// RaiseTo sets each quantity to the larger one of l and other.
func (l *list) RaiseTo(other list) {
	for name, quantity := range other.ResourceList {
		if is, ok := l.ResourceList[name]; !ok || is.Cmp(quantity) < 0 {
			l.set(name, quantity)
		}
	}
}

func (l *list) add(more corev1.ResourceList) { l.Add(list{more}) }

func (l *list) replace(by corev1.ResourceList) {
	for name, quantity := range by {
		l.set(name, quantity)
	}
}

func (l *list) set(name corev1.ResourceName, quantity resource.Quantity) {
	if l.ResourceList == nil {
		l.ResourceList = corev1.ResourceList{}
	}
	l.ResourceList[name] = quantity
}

// sameAmounts compares two lists by value.
func sameAmounts(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(p, q resource.Quantity) bool { return p.Cmp(q) == 0 })
}
