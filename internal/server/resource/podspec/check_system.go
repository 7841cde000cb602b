package podspec

import (
	corev1 "k8s.io/api/core/v1"
)

func (x *examiner) hostUsers(p *place) {
	if x.spec.HostUsers == nil || *x.spec.HostUsers || x.spec.SecurityContext == nil {
		return
	}
	for _, f := range [...]struct {
		name string
		set  bool
	}{{"hostNetwork", x.spec.HostNetwork}, {"HostPID", x.spec.HostPID}, {"HostIPC", x.spec.HostIPC}} {
		if f.set {
			c := p.child(f.name)
			x.forbidden(&c, "when `hostUsers` is false")
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
				c := item.child("volumeDevices")
				x.forbidden(&c, "when `hostUsers` is false")
			}
		}
	}
}

// system validates the operating system, and refuses fields that it does not support.
func (x *examiner) system(p *place) {
	if x.spec.OS == nil {
		return
	}
	os := p.child("os")
	name := os.child("name")
	if x.spec.OS.Name == "" {
		x.required(&name, "")
		return
	}
	if !oneOf(&x.findings, &os, x.spec.OS.Name, corev1.Linux, corev1.Windows) {
		return
	}
	if x.spec.OS.Name == corev1.Linux {
		x.onlyForWindows(p)
	} else {
		x.onlyForLinux(p)
	}
}

func (x *examiner) onlyForWindows(p *place) {
	const notForLinux = "windows options cannot be set for a linux pod"
	if s := x.spec.SecurityContext; s != nil && s.WindowsOptions != nil {
		at := p.child("securityContext")
		c := at.child("windowsOptions")
		x.forbidden(&c, notForLinux)
	}
	x.everySecurity(p, func(at *place, s *corev1.SecurityContext) {
		if s.WindowsOptions != nil {
			c := at.child("windowsOptions")
			x.forbidden(&c, notForLinux)
		}
	})
}

// everySecurity calls visit with the security contexts of all containers.
func (x *examiner) everySecurity(p *place, visit func(*place, *corev1.SecurityContext)) {
	x.everyContainer(p, func(list *place, i int, s *corev1.SecurityContext) {
		if s == nil {
			return
		}
		item := list.item(i)
		at := item.child("securityContext")
		visit(&at, s)
	})
}

// everyContainer calls one for all containers in the order in which they start.
func (x *examiner) everyContainer(p *place, one func(list *place, i int, s *corev1.SecurityContext)) {
	list := p.child("initContainers")
	for i := range x.spec.InitContainers {
		one(&list, i, x.spec.InitContainers[i].SecurityContext)
	}
	list = p.child("containers")
	for i := range x.spec.Containers {
		one(&list, i, x.spec.Containers[i].SecurityContext)
	}
	list = p.child("ephemeralContainers")
	for i := range x.spec.EphemeralContainers {
		one(&list, i, x.spec.EphemeralContainers[i].SecurityContext)
	}
}

// set is the name of a field, and whether it is set.
type set struct {
	of   *place
	name string
	is   bool
}

func (x *examiner) notForWindows(fields ...set) {
	for _, f := range fields {
		if f.is {
			c := f.of.child(f.name)
			x.forbidden(&c, "cannot be set for a windows pod")
		}
	}
}

func (x *examiner) onlyForLinux(p *place) {
	s := x.spec.SecurityContext
	if s == nil {
		s = &corev1.PodSecurityContext{}
	}
	at := p.child("securityContext")
	x.notForWindows(
		set{&at, "appArmorProfile", s.AppArmorProfile != nil}, set{&at, "seLinuxOptions", s.SELinuxOptions != nil},
		set{p, "hostUsers", x.spec.HostUsers != nil}, set{p, "hostPID", x.spec.HostPID}, set{p, "hostIPC", x.spec.HostIPC},
		set{&at, "seccompProfile", s.SeccompProfile != nil}, set{&at, "fsGroup", s.FSGroup != nil},
		set{&at, "fsGroupChangePolicy", s.FSGroupChangePolicy != nil}, set{&at, "sysctls", len(s.Sysctls) > 0},
		set{p, "shareProcessNamespace", x.spec.ShareProcessNamespace != nil},
		set{&at, "runAsUser", s.RunAsUser != nil}, set{&at, "runAsGroup", s.RunAsGroup != nil},
		set{&at, "supplementalGroups", s.SupplementalGroups != nil},
		set{&at, "supplementalGroupsPolicy", s.SupplementalGroupsPolicy != nil},
		set{&at, "seLinuxChangePolicy", s.SELinuxChangePolicy != nil},
	)
	x.everySecurity(p, func(at *place, s *corev1.SecurityContext) {
		x.notForWindows(
			set{at, "appArmorProfile", s.AppArmorProfile != nil}, set{at, "seLinuxOptions", s.SELinuxOptions != nil},
			set{at, "seccompProfile", s.SeccompProfile != nil}, set{at, "capabilities", s.Capabilities != nil},
			set{at, "readOnlyRootFilesystem", s.ReadOnlyRootFilesystem != nil}, set{at, "privileged", s.Privileged != nil},
			set{at, "allowPrivilegeEscalation", s.AllowPrivilegeEscalation != nil}, set{at, "procMount", s.ProcMount != nil},
			set{at, "runAsUser", s.RunAsUser != nil}, set{at, "runAsGroup", s.RunAsGroup != nil},
		)
	})
}
