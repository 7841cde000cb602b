package admission

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// bounds hold what something asks for against one item of a LimitRange.
type bounds struct {
	kind             string
	requests, limits corev1.ResourceList
}

func (b *bounds) each(enforced corev1.ResourceList, check func(corev1.ResourceName, resource.Quantity) error) []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(enforced)) {
		if err := check(name, enforced[name]); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func (b *bounds) belowMin(name corev1.ResourceName, least resource.Quantity) error {
	request, asked := b.requests[name]
	limit, bounded := b.limits[name]
	switch {
	case !asked:
		return fmt.Errorf("minimum %s usage per %s is %s.  No request is specified", name, b.kind, least.String())
	case request.Cmp(least) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but request is %s", name, b.kind, least.String(), request.String())
	case bounded && limit.Cmp(least) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but limit is %s", name, b.kind, least.String(), limit.String())
	}
	return nil
}

func (b *bounds) aboveMax(name corev1.ResourceName, most resource.Quantity) error {
	request, asked := b.requests[name]
	limit, bounded := b.limits[name]
	switch {
	case !bounded:
		return fmt.Errorf("maximum %s usage per %s is %s.  No limit is specified", name, b.kind, most.String())
	case limit.Cmp(most) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but limit is %s", name, b.kind, most.String(), limit.String())
	case asked && request.Cmp(most) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, b.kind, most.String(), request.String())
	}
	return nil
}

// requestAboveMax is for what knows no limits.
func (b *bounds) requestAboveMax(name corev1.ResourceName, most resource.Quantity) error {
	request, asked := b.requests[name]
	switch {
	case !asked:
		return fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", name, b.kind, most.String())
	case request.Cmp(most) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, b.kind, most.String(), request.String())
	}
	return nil
}

func (b *bounds) aboveRatio(name corev1.ResourceName, most resource.Quantity) error {
	request, asked := b.requests[name]
	limit, bounded := b.limits[name]
	switch {
	case !asked || request.IsZero():
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no request is specified or request is 0", name, b.kind, most.String())
	case !bounded || limit.IsZero():
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no limit is specified or limit is 0", name, b.kind, most.String())
	}
	if ratio := limit.AsApproximateFloat64() / request.AsApproximateFloat64(); ratio > most.AsApproximateFloat64() {
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but provided ratio is %f", name, b.kind, most.String(), ratio)
	}
	return nil
}

func requestsOf(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Requests }
func limitsOf(r *corev1.ResourceRequirements) corev1.ResourceList   { return r.Limits }

// sumOf says which resources a sum over containers has.
type sumOf int

const (
	anyContainer sumOf = iota // those that any container names
	commonOnly                // those that all containers name
)

// podTotal is what a pod needs at a time: its containers together with the sidecars, or more if one of the steps before
// them needs more; and what the pod as a whole says, if it does.
func podTotal(spec *corev1.PodSpec, of func(*corev1.ResourceRequirements) corev1.ResourceList, which sumOf) corev1.ResourceList {
	total, counted := corev1.ResourceList{}, map[corev1.ResourceName]int{}
	for i := range spec.Containers {
		for name, q := range of(&spec.Containers[i].Resources) {
			add(total, name, q)
			counted[name]++
		}
	}
	if which == commonOnly {
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
