package podspec

import (
	corev1 "k8s.io/api/core/v1"
)

func (x *examiner) hostUsers(p fieldPath) {
	if x.spec.HostUsers == nil || *x.spec.HostUsers || x.spec.SecurityContext == nil {
		return
	}
	for _, f := range [...]struct {
		name string
		set  bool
	}{{"hostNetwork", x.spec.HostNetwork}, {"HostPID", x.spec.HostPID}, {"HostIPC", x.spec.HostIPC}} {
		if f.set {
			x.forbidden(p.child(f.name), "when `hostUsers` is false")
		}
	}
	for _, l := range [...]struct {
		name       string
		containers []corev1.Container
	}{{"containers", x.spec.Containers}, {"initContainers", x.spec.InitContainers}} {
		list := p.child(l.name)
		for i := range l.containers {
			if len(l.containers[i].VolumeDevices) > 0 {
				item := list.item(i)
				x.forbidden(item.child("volumeDevices"), "when `hostUsers` is false")
			}
		}
	}
}

// system validates the operating system, and refuses fields that it does not support.
func (x *examiner) system(p fieldPath) {
	if x.spec.OS == nil {
		return
	}
	os := p.child("os")
	if x.spec.OS.Name == "" {
		x.required(os.child("name"), "")
		return
	}
	if !oneOf(&x.findings, os, x.spec.OS.Name, corev1.Linux, corev1.Windows) {
		return
	}
	if x.spec.OS.Name == corev1.Linux {
		x.onlyForWindows(p)
	} else {
		x.onlyForLinux(p)
	}
}

func (x *examiner) onlyForWindows(p fieldPath) {
	const notForLinux = "windows options cannot be set for a linux pod"
	if s := x.spec.SecurityContext; s != nil && s.WindowsOptions != nil {
		at := p.child("securityContext")
		x.forbidden(at.child("windowsOptions"), notForLinux)
	}
	x.everySecurity(func(list string, i int, s *corev1.SecurityContext) {
		if s.WindowsOptions != nil {
			item := p.element(list, i)
			at := item.child("securityContext")
			x.forbidden(at.child("windowsOptions"), notForLinux)
		}
	})
}

// everySecurity calls visit with the security contexts of all containers that have one.
func (x *examiner) everySecurity(visit func(list string, i int, s *corev1.SecurityContext)) {
	x.everyContainer(func(list string, i int, s *corev1.SecurityContext) {
		if s != nil {
			visit(list, i, s)
		}
	})
}

// everyContainer calls visit for all containers in the order in which they start. It says where they are, and not the
// path: that would be allocated, because the compiler cannot know what visit does with it.
func (x *examiner) everyContainer(visit func(list string, i int, s *corev1.SecurityContext)) {
	for i := range x.spec.InitContainers {
		visit("initContainers", i, x.spec.InitContainers[i].SecurityContext)
	}
	for i := range x.spec.Containers {
		visit("containers", i, x.spec.Containers[i].SecurityContext)
	}
	for i := range x.spec.EphemeralContainers {
		visit("ephemeralContainers", i, x.spec.EphemeralContainers[i].SecurityContext)
	}
}

// set is the name of a field, and whether it is set.
type set struct {
	of   *fieldPath
	name string
	is   bool
}

func (x *examiner) notForWindows(fields ...set) {
	for _, f := range fields {
		if f.is {
			c := f.of.child(f.name)
			x.forbidden(c, "cannot be set for a windows pod")
		}
	}
}

func (x *examiner) onlyForLinux(p fieldPath) {
	s := x.spec.SecurityContext
	if s == nil {
		s = &corev1.PodSecurityContext{}
	}
	at := p.child("securityContext")
	x.notForWindows(
		set{&at, "appArmorProfile", s.AppArmorProfile != nil}, set{&at, "seLinuxOptions", s.SELinuxOptions != nil},
		set{&p, "hostUsers", x.spec.HostUsers != nil}, set{&p, "hostPID", x.spec.HostPID}, set{&p, "hostIPC", x.spec.HostIPC},
		set{&at, "seccompProfile", s.SeccompProfile != nil}, set{&at, "fsGroup", s.FSGroup != nil},
		set{&at, "fsGroupChangePolicy", s.FSGroupChangePolicy != nil}, set{&at, "sysctls", len(s.Sysctls) > 0},
		set{&p, "shareProcessNamespace", x.spec.ShareProcessNamespace != nil},
		set{&at, "runAsUser", s.RunAsUser != nil}, set{&at, "runAsGroup", s.RunAsGroup != nil},
		set{&at, "supplementalGroups", s.SupplementalGroups != nil},
		set{&at, "supplementalGroupsPolicy", s.SupplementalGroupsPolicy != nil},
		set{&at, "seLinuxChangePolicy", s.SELinuxChangePolicy != nil},
	)
	x.everySecurity(func(list string, i int, s *corev1.SecurityContext) {
		item := p.element(list, i)
		at := item.child("securityContext")
		x.notForWindows(
			set{&at, "appArmorProfile", s.AppArmorProfile != nil}, set{&at, "seLinuxOptions", s.SELinuxOptions != nil},
			set{&at, "seccompProfile", s.SeccompProfile != nil}, set{&at, "capabilities", s.Capabilities != nil},
			set{&at, "readOnlyRootFilesystem", s.ReadOnlyRootFilesystem != nil}, set{&at, "privileged", s.Privileged != nil},
			set{&at, "allowPrivilegeEscalation", s.AllowPrivilegeEscalation != nil}, set{&at, "procMount", s.ProcMount != nil},
			set{&at, "runAsUser", s.RunAsUser != nil}, set{&at, "runAsGroup", s.RunAsGroup != nil},
		)
	})
}
