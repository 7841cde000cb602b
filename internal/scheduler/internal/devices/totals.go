package devices

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/millrace/millrace/internal/demand"
)

// Totals returns how many devices of a class a node can use, and how many of these are allocated: 0 if a selector of
// the class fails.
func (s *State) Totals(class *resourcev1.DeviceClass, node string, labels map[string]string) (all, allocated int64) {
	taken := s.Taken()
	for slice := range both(maps.Values(s.byNode[node]), maps.Values(s.shared)) {
		if !usable(slice.Spec.NodeName, slice.Spec.AllNodes, slice.Spec.NodeSelector, node, labels) && !perDevice(slice) {
			continue
		}
		matches, err := s.matches.of(class, slice)
		if err != nil {
			return 0, 0
		}
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			if !matches[i] || perDevice(slice) && !usable(d.NodeName, d.AllNodes, d.NodeSelector, node, labels) {
				continue
			}
			all++
			if structured.IsDeviceAllocated(structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, d.Name), &taken) {
				allocated++
			}
		}
	}
	return all, allocated
}

func perDevice(slice *resourcev1.ResourceSlice) bool {
	return slice.Spec.PerDeviceNodeSelection != nil && *slice.Spec.PerDeviceNodeSelection
}

// usable reports whether a node can use what is selected for nodes in one of three ways.
func usable(name *string, all *bool, selector *corev1.NodeSelector, node string, labels map[string]string) bool {
	switch {
	case all != nil && *all:
		return true
	case name != nil:
		return *name == node
	case selector != nil:
		match := demand.NodeSelectorMatch(selector)
		return match.Matches(node, labels)
	}
	return false
}

// matches keeps which devices a class selects.
type matches struct {
	expressions *cel.Cache
	known       map[*resourcev1.DeviceClass]map[*resourcev1.ResourceSlice][]bool
}

// maxExpressions is the maximum number of compiled selectors that are kept.
const maxExpressions = 100

// of returns for each device of a slice whether a class selects it.
func (m *matches) of(class *resourcev1.DeviceClass, slice *resourcev1.ResourceSlice) ([]bool, error) {
	if all, ok := m.known[class][slice]; ok {
		return all, nil
	}
	all := make([]bool, len(slice.Spec.Devices))
	for i := range slice.Spec.Devices {
		is, err := m.selects(class, slice, &slice.Spec.Devices[i])
		if err != nil {
			return nil, err
		}
		all[i] = is
	}
	of := m.known[class]
	set(&of, slice, all)
	set(&m.known, class, of)
	return all, nil
}

func (m *matches) selects(class *resourcev1.DeviceClass, slice *resourcev1.ResourceSlice, d *resourcev1.Device) (bool, error) {
	if m.expressions == nil {
		m.expressions = cel.NewCache(maxExpressions, cel.Features{EnableConsumableCapacity: true})
	}
	input := cel.Device{Driver: slice.Spec.Driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity}
	for _, s := range class.Spec.Selectors {
		if s.CEL == nil {
			continue
		}
		compiled := m.expressions.GetOrCompile(s.CEL.Expression)
		if compiled.Error != nil {
			return false, compiled.Error
		}
		if is, _, err := compiled.DeviceMatches(context.Background(), input); err != nil || !is {
			return false, err
		}
	}
	return true, nil
}

func (m *matches) forgetClass(class *resourcev1.DeviceClass) { delete(m.known, class) }

func (m *matches) forgetSlice(slice *resourcev1.ResourceSlice) {
	for _, of := range m.known {
		delete(of, slice)
	}
}
