package cluster

import (
	corev1 "k8s.io/api/core/v1"
)

// Resources are amounts in plain integers.
type Resources struct {
	MilliCPU         int64
	Memory           int64
	EphemeralStorage int64
	// Extended holds everything else by name: devices, huge pages. nil if there is nothing.
	Extended map[corev1.ResourceName]int64
}

// ResourcesOf reads a resource list; the number of pods is not part of it.
func ResourcesOf(list corev1.ResourceList) Resources {
	var r Resources
	for name, quantity := range list {
		switch name {
		case corev1.ResourceCPU:
			r.MilliCPU = quantity.MilliValue()
		case corev1.ResourceMemory:
			r.Memory = quantity.Value()
		case corev1.ResourceEphemeralStorage:
			r.EphemeralStorage = quantity.Value()
		case corev1.ResourcePods:
		default:
			r.setExtended(name, quantity.Value())
		}
	}
	return r
}

// IsZero says whether nothing is asked for.
func (r Resources) IsZero() bool {
	if r.MilliCPU != 0 || r.Memory != 0 || r.EphemeralStorage != 0 {
		return false
	}
	for _, amount := range r.Extended {
		if amount != 0 {
			return false
		}
	}
	return true
}

// Equal compares all amounts.
func (r Resources) Equal(other Resources) bool {
	if r.MilliCPU != other.MilliCPU || r.Memory != other.Memory ||
		r.EphemeralStorage != other.EphemeralStorage || len(r.Extended) != len(other.Extended) {
		return false
	}
	for name, amount := range r.Extended {
		if there, ok := other.Extended[name]; !ok || there != amount {
			return false
		}
	}
	return true
}

func (r *Resources) setExtended(name corev1.ResourceName, amount int64) {
	if r.Extended == nil {
		r.Extended = make(map[corev1.ResourceName]int64)
	}
	r.Extended[name] = amount
}

func (r *Resources) add(other Resources) {
	r.MilliCPU += other.MilliCPU
	r.Memory += other.Memory
	r.EphemeralStorage += other.EphemeralStorage
	for name, amount := range other.Extended {
		r.setExtended(name, r.Extended[name]+amount)
	}
}

func (r *Resources) subtract(other Resources) {
	r.MilliCPU -= other.MilliCPU
	r.Memory -= other.Memory
	r.EphemeralStorage -= other.EphemeralStorage
	for name, amount := range other.Extended {
		if left := r.Extended[name] - amount; left != 0 {
			r.setExtended(name, left)
		} else {
			delete(r.Extended, name)
		}
	}
}

func (r *Resources) raiseTo(other Resources) {
	r.MilliCPU = max(r.MilliCPU, other.MilliCPU)
	r.Memory = max(r.Memory, other.Memory)
	r.EphemeralStorage = max(r.EphemeralStorage, other.EphemeralStorage)
	for name, amount := range other.Extended {
		r.setExtended(name, max(r.Extended[name], amount))
	}
}
