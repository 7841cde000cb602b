package demand

import (
	corev1 "k8s.io/api/core/v1"
)

// Resources are amounts as plain integers. The zero value means none.
type Resources struct {
	MilliCPU         int64
	Memory           int64
	EphemeralStorage int64
	// Extended holds all other resources by name, such as devices and huge pages. It is nil if there are none.
	Extended map[corev1.ResourceName]int64
}

// ResourcesOf converts a resource list. The number of pods is ignored.
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

// Get returns the amount of one resource, and whether there is any.
func (r *Resources) Get(name corev1.ResourceName) (amount int64, ok bool) {
	switch name {
	case corev1.ResourceCPU:
		amount = r.MilliCPU
	case corev1.ResourceMemory:
		amount = r.Memory
	case corev1.ResourceEphemeralStorage:
		amount = r.EphemeralStorage
	default:
		amount, ok = r.Extended[name]
		return amount, ok
	}
	return amount, amount != 0
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

// Add adds other to r.
func (r *Resources) Add(other Resources) {
	r.MilliCPU += other.MilliCPU
	r.Memory += other.Memory
	r.EphemeralStorage += other.EphemeralStorage
	for name, amount := range other.Extended {
		r.setExtended(name, r.Extended[name]+amount)
	}
}

// Subtract subtracts other from r. An extended resource whose amount becomes zero is removed.
func (r *Resources) Subtract(other Resources) {
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

// RaiseTo sets each amount to the larger one of r and other.
func (r *Resources) RaiseTo(other Resources) {
	r.MilliCPU = max(r.MilliCPU, other.MilliCPU)
	r.Memory = max(r.Memory, other.Memory)
	r.EphemeralStorage = max(r.EphemeralStorage, other.EphemeralStorage)
	for name, amount := range other.Extended {
		r.setExtended(name, max(r.Extended[name], amount))
	}
}

func (r *Resources) add(list corev1.ResourceList) { r.Add(ResourcesOf(list)) }

// replace sets the amounts in a list.
func (r *Resources) replace(list corev1.ResourceList) {
	amounts := ResourcesOf(list)
	for name := range list {
		switch name {
		case corev1.ResourceCPU:
			r.MilliCPU = amounts.MilliCPU
		case corev1.ResourceMemory:
			r.Memory = amounts.Memory
		case corev1.ResourceEphemeralStorage:
			r.EphemeralStorage = amounts.EphemeralStorage
		case corev1.ResourcePods:
		default:
			r.setExtended(name, amounts.Extended[name])
		}
	}
}

func (r *Resources) setExtended(name corev1.ResourceName, amount int64) {
	if r.Extended == nil {
		r.Extended = make(map[corev1.ResourceName]int64)
	}
	r.Extended[name] = amount
}
