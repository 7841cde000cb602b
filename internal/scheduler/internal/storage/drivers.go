package storage

import (
	"iter"
	"maps"

	storagev1 "k8s.io/api/storage/v1"
)

// SetClass sets a storage class; nil if it was deleted.
func (s *State) SetClass(name string, class *storagev1.StorageClass) {
	put(&s.classes, name, class)
}

// Class returns a storage class.
func (s *State) Class(name string) (*storagev1.StorageClass, bool) {
	class, ok := s.classes[name]
	return class, ok
}

// SetNode sets a CSINode; nil if it was deleted.
func (s *State) SetNode(name string, node *storagev1.CSINode) { put(&s.nodes, name, node) }

// Node returns a CSINode.
func (s *State) Node(name string) (*storagev1.CSINode, bool) {
	node, ok := s.nodes[name]
	return node, ok
}

// SetDriver sets a CSIDriver; nil if it was deleted.
func (s *State) SetDriver(name string, driver *storagev1.CSIDriver) { put(&s.drivers, name, driver) }

// Driver returns a CSIDriver.
func (s *State) Driver(name string) (*storagev1.CSIDriver, bool) {
	driver, ok := s.drivers[name]
	return driver, ok
}

// SetCapacity sets a storage capacity; nil if it was deleted.
func (s *State) SetCapacity(key Key, capacity *storagev1.CSIStorageCapacity) {
	for class, list := range s.capacities {
		if delete(list, key); len(list) == 0 {
			delete(s.capacities, class)
		}
	}
	if capacity == nil {
		return
	}
	putIn(&s.capacities, capacity.StorageClassName, key, capacity)
}

// Capacities ranges over the capacities of a class.
func (s *State) Capacities(class string) iter.Seq[*storagev1.CSIStorageCapacity] {
	return maps.Values(s.capacities[class])
}

// SetAttachment sets a volume attachment; nil if it was deleted.
func (s *State) SetAttachment(name string, attachment *storagev1.VolumeAttachment) {
	if node, ok := s.attachedTo[name]; ok {
		delete(s.attachedTo, name)
		if delete(s.attachments[node], name); len(s.attachments[node]) == 0 {
			delete(s.attachments, node)
		}
	}
	if attachment == nil {
		return
	}
	putIn(&s.attachments, attachment.Spec.NodeName, name, attachment)
	if s.attachedTo == nil {
		s.attachedTo = make(map[string]string)
	}
	s.attachedTo[name] = attachment.Spec.NodeName
}

// Attachments ranges over the attachments of a node.
func (s *State) Attachments(node string) iter.Seq[*storagev1.VolumeAttachment] {
	return maps.Values(s.attachments[node])
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
