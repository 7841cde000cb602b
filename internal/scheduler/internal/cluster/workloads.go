package cluster

import (
	"k8s.io/apimachinery/pkg/labels"
)

// workloads are the services and owners of one namespace. Their selectors are used for default spreading.
type workloads struct {
	services map[string]labels.Selector
	owners   map[Owner]labels.Selector
	version  uint64
}

// SetService sets the selector of a service; nil if it has none or was deleted.
func (s *State) SetService(namespace, name string, selector labels.Selector) {
	w := s.workload(namespace)
	set(w.services, name, selector, &w.version)
}

// SetOwner sets the selector of an owner; nil if it was deleted.
func (s *State) SetOwner(namespace string, owner Owner, selector labels.Selector) {
	w := s.workload(namespace)
	set(w.owners, owner, selector, &w.version)
}

func set[K comparable](selectors map[K]labels.Selector, key K, selector labels.Selector, version *uint64) {
	old, ok := selectors[key]
	switch {
	case selector == nil && !ok:
		return
	case selector == nil:
		delete(selectors, key)
	case ok && old.String() == selector.String():
		return
	default:
		selectors[key] = selector
	}
	*version++
}

func (s *State) workload(namespace string) *workloads {
	w, ok := s.workloads[namespace]
	if !ok {
		if s.workloads == nil {
			s.workloads = make(map[string]*workloads)
		}
		w = &workloads{services: make(map[string]labels.Selector), owners: make(map[Owner]labels.Selector)}
		s.workloads[namespace] = w
	}
	return w
}

// WorkloadsVersion changes when the results of WorkloadSelector for a namespace may change.
func (s *State) WorkloadsVersion(namespace string) uint64 {
	if w, ok := s.workloads[namespace]; ok {
		return w.version
	}
	return 0
}

// WorkloadSelector returns a selector of the pods that are selected by all services of a shape's pods and by their
// owner; nil if there are none of these.
func (s *State) WorkloadSelector(shape *Shape) labels.Selector {
	w, ok := s.workloads[shape.Namespace]
	if !ok {
		return nil
	}
	var all labels.Requirements
	for _, selector := range w.services {
		if selector.Matches(shape.Labels) {
			requirements, _ := selector.Requirements()
			all = append(all, requirements...)
		}
	}
	if selector, ok := w.owners[shape.Owner]; ok {
		requirements, _ := selector.Requirements()
		all = append(all, requirements...)
	}
	if len(all) == 0 {
		return nil
	}
	return labels.NewSelector().Add(all...)
}
