package storage

import (
	"iter"
	"maps"

	storagev1 "k8s.io/api/storage/v1"
)

// SetClass sets a storage class; nil if it was deleted.
func (p *State) SetClass(name string, class *storagev1.StorageClass) {
	put(&p.classes, name, class)
}

// Class returns a storage class.
func (p *State) Class(name string) (*storagev1.StorageClass, bool) {
	class, ok := p.classes[name]
	return class, ok
}

// SetNode sets a CSINode; nil if it was deleted.
func (p *State) SetNode(name string, node *storagev1.CSINode) { put(&p.nodes, name, node) }

// Node returns a CSINode.
func (p *State) Node(name string) (*storagev1.CSINode, bool) {
	node, ok := p.nodes[name]
	return node, ok
}

// SetDriver sets a CSIDriver; nil if it was deleted.
func (p *State) SetDriver(name string, driver *storagev1.CSIDriver) { put(&p.drivers, name, driver) }

// Driver returns a CSIDriver.
func (p *State) Driver(name string) (*storagev1.CSIDriver, bool) {
	driver, ok := p.drivers[name]
	return driver, ok
}

// SetCapacity sets a storage capacity; nil if it was deleted.
func (p *State) SetCapacity(key Key, capacity *storagev1.CSIStorageCapacity) {
	for class, list := range p.capacities {
		if delete(list, key); len(list) == 0 {
			delete(p.capacities, class)
		}
	}
	if capacity == nil {
		return
	}
	putIn(&p.capacities, capacity.StorageClassName, key, capacity)
}

// Capacities ranges over the capacities of a class.
func (p *State) Capacities(class string) iter.Seq[*storagev1.CSIStorageCapacity] {
	return maps.Values(p.capacities[class])
}

// SetAttachment sets a volume attachment; nil if it was deleted.
func (p *State) SetAttachment(name string, attachment *storagev1.VolumeAttachment) {
	if node, ok := p.attachedTo[name]; ok {
		delete(p.attachedTo, name)
		if delete(p.attachments[node], name); len(p.attachments[node]) == 0 {
			delete(p.attachments, node)
		}
	}
	if attachment == nil {
		return
	}
	putIn(&p.attachments, attachment.Spec.NodeName, name, attachment)
	if p.attachedTo == nil {
		p.attachedTo = make(map[string]string)
	}
	p.attachedTo[name] = attachment.Spec.NodeName
}

// Attachments ranges over the attachments of a node.
func (p *State) Attachments(node string) iter.Seq[*storagev1.VolumeAttachment] {
	return maps.Values(p.attachments[node])
}

// put sets a value, or deletes the key if the value is nil.
func put[K comparable, V any](m *map[K]*V, key K, value *V) {
	if value == nil {
		delete(*m, key)
		return
	}
	if *m == nil {
		*m = make(map[K]*V)
	}
	(*m)[key] = value
}

// putIn sets a value in one of several maps.
func putIn[O, K comparable, V any](m *map[O]map[K]*V, outer O, key K, value *V) {
	inner := (*m)[outer]
	put(&inner, key, value)
	if *m == nil {
		*m = make(map[O]map[K]*V)
	}
	(*m)[outer] = inner
}
