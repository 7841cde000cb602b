package devices

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// SetClass sets a class; nil if it was deleted. It returns the extended resources that have another class now, or none
// any more.
func (s *State) SetClass(name string, class *resourcev1.DeviceClass) (changed []corev1.ResourceName) {
	old := s.classes[name]
	if (old == nil) != (class == nil) {
		changed = append(changed, implicitName(name))
	}
	if old != nil {
		s.matches.forgetClass(old)
	}
	if class == nil {
		delete(s.classes, name)
	} else {
		set(&s.classes, name, class)
	}
	resources := []corev1.ResourceName{explicitName(old), explicitName(class)}
	for _, resource := range slices.Compact(resources) {
		if resource != "" && s.nameClass(resource) {
			changed = append(changed, resource)
		}
	}
	return changed
}

// nameClass finds the class for an extended resource, and reports whether it is another one than before.
func (s *State) nameClass(resource corev1.ResourceName) bool {
	var best *resourcev1.DeviceClass
	for _, class := range s.classes {
		if explicitName(class) == resource && (best == nil || precedes(class, best)) {
			best = class
		}
	}
	old := s.named[resource]
	if best == nil {
		delete(s.named, resource)
	} else {
		set(&s.named, resource, best)
	}
	return (old == nil) != (best == nil) || old != nil && old.Name != best.Name
}

// precedes tells which of two classes that name the same resource counts: the newer one, so that users can replace a
// class.
func precedes(class, other *resourcev1.DeviceClass) bool {
	if at, than := class.CreationTimestamp, other.CreationTimestamp; !at.Equal(&than) {
		return than.Before(&at)
	}
	return class.Name < other.Name
}

func explicitName(class *resourcev1.DeviceClass) corev1.ResourceName {
	if class == nil || class.Spec.ExtendedResourceName == nil {
		return ""
	}
	return corev1.ResourceName(*class.Spec.ExtendedResourceName)
}

// implicitName is the extended resource that each class stands for, whatever it names.
func implicitName(class string) corev1.ResourceName {
	return corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix + class)
}

// ClassOf returns the class whose devices a resource stands for, or nil.
func (s *State) ClassOf(resource corev1.ResourceName) *resourcev1.DeviceClass {
	if class, implicit := strings.CutPrefix(string(resource), resourcev1.ResourceDeviceClassPrefix); implicit {
		return s.classes[class]
	}
	return s.named[resource]
}
