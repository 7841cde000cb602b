package podspec

import (
	corev1 "k8s.io/api/core/v1"
)

func (x *examiner) mounts(p fieldPath, c *corev1.Container) {
	if len(c.VolumeMounts) == 0 {
		return
	}
	var paths seen[string]
	list := p.child("volumeMounts")
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		item := list.item(i)
		name, path := item.child("name"), item.child("mountPath")
		if m.Name == "" {
			x.required(name, "")
		}
		if x.usable(m.Name) == nil {
			x.notFound(name, m.Name)
		}
		if m.MountPath == "" {
			x.required(path, "")
		}
		if !paths.add(m.MountPath) {
			x.invalid(path, m.MountPath, "must be unique")
		}
		for j := range c.VolumeDevices {
			if c.VolumeDevices[j].Name == m.Name {
				x.invalid(name, m.Name, "must not already exist in volumeDevices")
			}
			if c.VolumeDevices[j].DevicePath == m.MountPath {
				x.invalid(path, m.MountPath, "must not already exist as a path in volumeDevices")
			}
		}
		x.subPaths(list, item, m)
		x.propagation(list, m, c)
		x.recursiveReadOnly(list, m)
	}
}

// subPaths reports most errors at the list and not at the item, as Kubernetes does for all fields but a mount's name
// and path.
func (x *examiner) subPaths(list, item fieldPath, m *corev1.VolumeMount) {
	if m.SubPath != "" {
		x.descendingPath(list.child("subPath"), m.SubPath)
	}
	if m.SubPathExpr != "" {
		if m.SubPath != "" {
			x.invalid(item.child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive")
		}
		x.descendingPath(list.child("subPathExpr"), m.SubPathExpr)
	}
}

func (x *examiner) propagation(p fieldPath, m *corev1.VolumeMount, c *corev1.Container) {
	if m.MountPropagation == nil {
		return
	}
	at := p.child("mountPropagation")
	known := oneOf(&x.findings, at, *m.MountPropagation,
		corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)
	if known && *m.MountPropagation == corev1.MountPropagationBidirectional && !isPrivileged(c.SecurityContext) {
		x.forbidden(at, "Bidirectional mount propagation is available only to privileged containers")
	}
}

func isPrivileged(s *corev1.SecurityContext) bool {
	return s != nil && s.Privileged != nil && *s.Privileged
}

func (x *examiner) recursiveReadOnly(p fieldPath, m *corev1.VolumeMount) {
	if m.RecursiveReadOnly == nil {
		return
	}
	c := p.child("recursiveReadOnly")
	switch *m.RecursiveReadOnly {
	case corev1.RecursiveReadOnlyDisabled:
	case corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible:
		if !m.ReadOnly {
			x.forbidden(c, "may only be specified when readOnly is true")
		}
		if m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
			x.forbidden(c, "may only be specified when mountPropagation is None or not specified")
		}
	default:
		oneOf(&x.findings, c, *m.RecursiveReadOnly,
			corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible)
	}
}

func (x *examiner) devices(p fieldPath, c *corev1.Container) {
	if len(c.VolumeDevices) == 0 {
		return
	}
	var names, paths seen[string]
	list := p.child("volumeDevices")
	for i := range c.VolumeDevices {
		d := &c.VolumeDevices[i]
		item := list.item(i)
		name, path := item.child("name"), item.child("devicePath")
		if d.Name == "" {
			x.required(name, "")
		}
		if !names.add(d.Name) {
			x.invalid(name, d.Name, "must be unique")
		}
		switch v := x.usable(d.Name); {
		case v == nil:
			x.notFound(name, d.Name)
		case v.PersistentVolumeClaim == nil && v.Ephemeral == nil:
			x.invalid(name, d.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode")
		}
		if d.DevicePath == "" {
			x.required(path, "")
		}
		if !paths.add(d.DevicePath) {
			x.invalid(path, d.DevicePath, "must be unique")
		}
		if hasBacksteps(d.DevicePath) {
			x.invalid(path, d.DevicePath, "can not contain backsteps ('..')")
		}
		for j := range c.VolumeMounts {
			if c.VolumeMounts[j].Name == d.Name {
				x.invalid(name, d.Name, "must not already exist in volumeMounts")
			}
			if c.VolumeMounts[j].MountPath == d.DevicePath {
				x.invalid(path, d.DevicePath, "must not already exist as a path in volumeMounts")
			}
		}
	}
}
