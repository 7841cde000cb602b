package cri

import (
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandboxSecurity converts the pod's security context.
func sandboxSecurity(pod *corev1.Pod, users *runtimeapi.UserNamespace) *runtimeapi.LinuxSandboxSecurityContext {
	s := &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: namespaces(pod, users),
		Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
	}
	for i := range pod.Spec.Containers {
		if sc := pod.Spec.Containers[i].SecurityContext; sc != nil && sc.Privileged != nil && *sc.Privileged {
			s.Privileged = true
		}
	}
	sc := pod.Spec.SecurityContext
	if sc == nil {
		return s
	}
	s.RunAsUser, s.RunAsGroup = number(sc.RunAsUser), number(sc.RunAsGroup)
	if s.RunAsUser == nil {
		s.RunAsGroup = nil // CRI accepts a group only together with a user
	}
	s.SupplementalGroups = groups(sc)
	return s
}

func namespaces(pod *corev1.Pod, users *runtimeapi.UserNamespace) *runtimeapi.NamespaceOption {
	n := &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER, UsernsOptions: users}
	if pod.Spec.HostNetwork {
		n.Network = runtimeapi.NamespaceMode_NODE
	}
	if pod.Spec.HostIPC {
		n.Ipc = runtimeapi.NamespaceMode_NODE
	}
	switch {
	case pod.Spec.HostPID:
		n.Pid = runtimeapi.NamespaceMode_NODE
	case pod.Spec.ShareProcessNamespace != nil && *pod.Spec.ShareProcessNamespace:
		n.Pid = runtimeapi.NamespaceMode_POD
	}
	return n
}

// security converts a container's security context. Its fields override those of the pod.
func (r *Runtime) security(pod *corev1.Pod, c *corev1.Container, users *runtimeapi.UserNamespace) *runtimeapi.LinuxContainerSecurityContext {
	s := &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions: namespaces(pod, users), MaskedPaths: maskedPaths, ReadonlyPaths: readonlyPaths,
		Seccomp: r.seccomp(nil),
	}
	if sc := pod.Spec.SecurityContext; sc != nil {
		s.RunAsUser, s.RunAsGroup = number(sc.RunAsUser), number(sc.RunAsGroup)
		s.SupplementalGroups = groups(sc)
		s.Seccomp, s.SelinuxOptions, s.Apparmor = r.seccomp(sc.SeccompProfile), selinux(sc.SELinuxOptions), appArmor(sc.AppArmorProfile)
		if strictGroups(pod) {
			s.SupplementalGroupsPolicy = runtimeapi.SupplementalGroupsPolicy_Strict
		}
	}
	own := c.SecurityContext
	if own == nil {
		return s
	}
	if own.RunAsUser != nil {
		s.RunAsUser = number(own.RunAsUser)
	}
	if own.RunAsGroup != nil {
		s.RunAsGroup = number(own.RunAsGroup)
	}
	if own.SeccompProfile != nil {
		s.Seccomp = r.seccomp(own.SeccompProfile)
	}
	if own.AppArmorProfile != nil {
		s.Apparmor = appArmor(own.AppArmorProfile)
	}
	if own.SELinuxOptions != nil {
		s.SelinuxOptions = selinux(own.SELinuxOptions)
	}
	s.Privileged = own.Privileged != nil && *own.Privileged
	s.ReadonlyRootfs = own.ReadOnlyRootFilesystem != nil && *own.ReadOnlyRootFilesystem
	s.NoNewPrivs = own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation && !s.Privileged
	if own.Capabilities != nil {
		s.Capabilities = &runtimeapi.Capability{AddCapabilities: capabilities(own.Capabilities.Add), DropCapabilities: capabilities(own.Capabilities.Drop)}
	}
	// All of /proc belongs to whoever is root there: without a user namespace that is the machine's.
	if s.Privileged || users != nil && own.ProcMount != nil && *own.ProcMount == corev1.UnmaskedProcMount {
		s.MaskedPaths, s.ReadonlyPaths = nil, nil
	}
	return s
}

func number(n *int64) *runtimeapi.Int64Value {
	if n == nil {
		return nil
	}
	return &runtimeapi.Int64Value{Value: *n}
}

func groups(sc *corev1.PodSecurityContext) []int64 {
	all := append([]int64(nil), sc.SupplementalGroups...)
	if sc.FSGroup != nil {
		all = append(all, *sc.FSGroup)
	}
	return all
}

func capabilities(all []corev1.Capability) []string {
	var names []string
	for _, c := range all {
		names = append(names, strings.TrimPrefix(string(c), "CAP_"))
	}
	return names
}

// seccomp converts a seccomp profile.
func (r *Runtime) seccomp(p *corev1.SeccompProfile) *runtimeapi.SecurityProfile {
	switch {
	case p == nil && r.SeccompDefault:
	case p == nil || p.Type == corev1.SeccompProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
	case p.Type == corev1.SeccompProfileTypeLocalhost && p.LocalhostProfile != nil:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: filepath.Join(r.Profiles, filepath.Join("/", *p.LocalhostProfile))}
	}
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
}

// appArmor converts an AppArmor profile. No profile leaves it to the runtime.
func appArmor(p *corev1.AppArmorProfile) *runtimeapi.SecurityProfile {
	switch {
	case p == nil:
		return nil
	case p.Type == corev1.AppArmorProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
	case p.Type == corev1.AppArmorProfileTypeLocalhost && p.LocalhostProfile != nil:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: *p.LocalhostProfile}
	}
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
}

func selinux(o *corev1.SELinuxOptions) *runtimeapi.SELinuxOption {
	if o == nil {
		return nil
	}
	return &runtimeapi.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

// The paths in /proc and /sys that containers cannot see, and those that are read-only.
var (
	maskedPaths = []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
		"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)
