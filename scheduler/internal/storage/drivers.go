package storage

import (
	"iter"
	"maps"

	storagev1 "k8s.io/api/storage/v1"
)

// SetClass takes in a storage class; nil if it has gone.
func (p *Picture) SetClass(name string, class *storagev1.StorageClass) {
	put(&p.classes, name, class)
}

// Class finds a storage class.
func (p *Picture) Class(name string) (*storagev1.StorageClass, bool) {
	class, ok := p.classes[name]
	return class, ok
}

// SetNode takes in what a node's drivers say; nil if that has gone.
func (p *Picture) SetNode(name string, node *storagev1.CSINode) { put(&p.nodes, name, node) }

// Node finds what a node's drivers say.
func (p *Picture) Node(name string) (*storagev1.CSINode, bool) {
	node, ok := p.nodes[name]
	return node, ok
}

// SetDriver takes in a driver; nil if it has gone.
func (p *Picture) SetDriver(name string, driver *storagev1.CSIDriver) { put(&p.drivers, name, driver) }

// Driver finds a driver.
func (p *Picture) Driver(name string) (*storagev1.CSIDriver, bool) {
	driver, ok := p.drivers[name]
	return driver, ok
}

// SetCapacity takes in how much a driver can still provision somewhere; nil if that has gone.
func (p *Picture) SetCapacity(key Key, capacity *storagev1.CSIStorageCapacity) {
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
func (p *Picture) Capacities(class string) iter.Seq[*storagev1.CSIStorageCapacity] {
	return maps.Values(p.capacities[class])
}

// SetAttachment takes in an attachment; nil if it has gone.
func (p *Picture) SetAttachment(name string, attachment *storagev1.VolumeAttachment) {
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
func (p *Picture) Attachments(node string) iter.Seq[*storagev1.VolumeAttachment] {
	return maps.Values(p.attachments[node])
}

// put sets a value, or deletes the key if there is none.
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
