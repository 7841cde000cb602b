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
	}{{"hostNetwork", x.spec.HostNetwork}, {"hostPID", x.spec.HostPID}, {"hostIPC", x.spec.HostIPC}} {
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
	if !oneOf(&x.findings, &name, x.spec.OS.Name, corev1.Linux, corev1.Windows) {
		return
	}
	s := x.spec.SecurityContext
	if s == nil {
		s = &corev1.PodSecurityContext{}
	}
	at := p.child("securityContext")
	if x.spec.OS.Name == corev1.Linux {
		if s.WindowsOptions != nil {
			c := at.child("windowsOptions")
			x.forbidden(&c, "windows options cannot be set for a linux pod")
		}
		return
	}
	for _, f := range [...]struct {
		of   *place
		name string
		set  bool
	}{
		{p, "hostPID", x.spec.HostPID}, {p, "hostIPC", x.spec.HostIPC},
		{&at, "seLinuxOptions", s.SELinuxOptions != nil}, {p, "hostUsers", x.spec.HostUsers != nil},
		{&at, "seccompProfile", s.SeccompProfile != nil}, {&at, "appArmorProfile", s.AppArmorProfile != nil},
		{&at, "fsGroup", s.FSGroup != nil}, {&at, "fsGroupChangePolicy", s.FSGroupChangePolicy != nil},
		{&at, "sysctls", len(s.Sysctls) > 0}, {p, "shareProcessNamespace", x.spec.ShareProcessNamespace != nil},
		{&at, "runAsUser", s.RunAsUser != nil}, {&at, "runAsGroup", s.RunAsGroup != nil},
		{&at, "supplementalGroups", s.SupplementalGroups != nil},
		{&at, "supplementalGroupsPolicy", s.SupplementalGroupsPolicy != nil},
	} {
		if f.set {
			c := f.of.child(f.name)
			x.forbidden(&c, "cannot be set for a windows pod")
		}
	}
}
