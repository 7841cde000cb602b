package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of a pod's eviction responders.
const (
	maxResponders     = 10
	highestPriority   = 100_000
	reservedPriority  = 1_000
	ownResponders     = ".k8s.io"
	reservedResponder = "domain names *.k8s.io and *.kubernetes.io are reserved"
)

// schedulingGroup requires that a scheduling group, if set, has a name.
func (x *examiner) schedulingGroup(p fieldPath) {
	g := x.spec.SchedulingGroup
	if g == nil {
		return
	}
	group := p.child("schedulingGroup")
	if g.PodGroupName == nil {
		x.required(group, "must specify one of: `podGroupName`")
		return
	}
	x.invalidAll(group.child("podGroupName"), *g.PodGroupName, subdomain(*g.PodGroupName))
}

func (x *examiner) evictionResponders(p fieldPath) {
	if len(x.spec.EvictionResponders) == 0 {
		return
	}
	list := p.child("evictionResponders")
	if x.spec.SchedulingGroup != nil {
		x.forbidden(list, "may not be specified when `schedulingGroup` is set")
	}
	x.atMost(list, len(x.spec.EvictionResponders), maxResponders)
	var names seen[string]
	for i := range x.spec.EvictionResponders {
		r := &x.spec.EvictionResponders[i]
		item := list.item(i)
		x.responder(item, r)
		if !names.add(r.Name) {
			x.duplicate(item.child("name"), r.Name)
		}
	}
}

func (x *examiner) responder(p fieldPath, r *corev1.EvictionResponder) {
	name := p.child("name")
	domain, _, prefixed := strings.Cut(r.Name, "/")
	switch {
	case r.Name == "":
		x.required(name, "")
	case !prefixed:
		x.invalid(name, r.Name, "must be a domain-prefixed key (such as \"acme.io/foo\")")
	case strings.HasSuffix("."+domain, ".k8s.io"), strings.HasSuffix("."+domain, ".kubernetes.io"):
		x.invalid(name, r.Name, reservedResponder)
	default:
		x.invalidAll(name, r.Name, qualifiedName(r.Name))
	}
	priority := p.child("priority")
	switch n := r.Priority; {
	case n == nil:
		x.required(priority, "")
	case *n < 0:
		x.errs = append(x.errs, field.Invalid(x.path(priority), *n, "must be greater than or equal to 0"))
	case *n > highestPriority:
		x.errs = append(x.errs, field.Invalid(x.path(priority), *n, fmt.Sprintf("must be less than or equal to %d", highestPriority)))
	case *n < reservedPriority:
		x.invalid(priority, *n, fmt.Sprintf("0-%d is reserved for responders of *%s", reservedPriority-1, ownResponders))
	}
}
