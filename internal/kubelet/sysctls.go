package kubelet

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/worker"
)

// safeSysctls change nothing outside of their pod. Others need the administrator's consent.
var safeSysctls = []string{
	"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
	"net.ipv4.ip_unprivileged_port_start", "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout",
	"net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
}

// sysctlNamespaces are those of sysctls that a namespace has for itself, by their prefix.
var sysctlNamespaces = map[string]string{"kernel.shm": "ipc", "kernel.msg": "ipc", "kernel.sem": "ipc", "fs.mqueue.": "ipc", "net.": "net"}

// checkUnsafeSysctls checks what the administrator allows: names of sysctls, or their beginnings with a star.
func checkUnsafeSysctls(allowed []string) error {
	for _, pattern := range allowed {
		if namespaceOf(sysctlName(strings.TrimSuffix(pattern, "*"))) == "" {
			return fmt.Errorf("the sysctls %q are not known to be namespaced", pattern)
		}
	}
	return nil
}

// forbidSysctls rejects a pod with a sysctl that is neither safe nor allowed, or would change the machine.
func (k *Kubelet) forbidSysctls(pod *corev1.Pod) *worker.Rejection {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		if why := k.sysctlProblem(&pod.Spec, sysctlName(s.Name)); why != "" {
			return &worker.Rejection{Reason: "SysctlForbidden", Message: "forbidden sysctl: " + why}
		}
	}
	return nil
}

func (k *Kubelet) sysctlProblem(spec *corev1.PodSpec, name string) string {
	allowed := slices.Contains(safeSysctls, name) || slices.ContainsFunc(k.options.UnsafeSysctls, func(pattern string) bool {
		prefix, open := strings.CutSuffix(sysctlName(pattern), "*")
		return name == prefix || open && strings.HasPrefix(name, prefix)
	})
	namespace := namespaceOf(name)
	switch {
	case !allowed:
		return fmt.Sprintf("%q not allowlisted", name)
	case namespace == "ipc" && spec.HostIPC, namespace == "net" && spec.HostNetwork:
		return fmt.Sprintf("%q not allowed with host %s enabled", name, namespace)
	}
	return ""
}

func namespaceOf(sysctl string) string {
	for prefix, namespace := range sysctlNamespaces {
		if strings.HasPrefix(sysctl, prefix) {
			return namespace
		}
	}
	return ""
}

// sysctlName writes a name with dots. In a name with slashes, dots belong to its parts.
func sysctlName(name string) string {
	if i := strings.IndexAny(name, "./"); i < 0 || name[i] == '.' {
		return name
	}
	return strings.NewReplacer("/", ".", ".", "/").Replace(name)
}
