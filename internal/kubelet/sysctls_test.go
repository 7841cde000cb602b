package kubelet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSysctlsNeedToBeSafeOrAllowed(t *testing.T) {
	k := &Kubelet{options: Options{UnsafeSysctls: []string{"kernel.msg*", "net.core.somaxconn"}}}
	for _, c := range []struct {
		name             string
		hostNet, hostIPC bool
		want             string
	}{
		{name: "kernel.shm_rmid_forced"},
		{name: "kernel/shm_rmid_forced"},
		{name: "kernel.msgmax"},
		{name: "net.core.somaxconn"},
		{name: "net.core.somaxconns", want: `forbidden sysctl: "net.core.somaxconns" not allowlisted`},
		{name: "kernel.panic", want: `forbidden sysctl: "kernel.panic" not allowlisted`},
		{name: "kernel.msgmax", hostIPC: true, want: `forbidden sysctl: "kernel.msgmax" not allowed with host ipc enabled`},
		{name: "net.ipv4.tcp_syncookies", hostNet: true, want: `forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host net enabled`},
		{name: "net.ipv4.tcp_syncookies", hostIPC: true},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{HostNetwork: c.hostNet, HostIPC: c.hostIPC, SecurityContext: &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: c.name}}}}}
		got := ""
		if r := k.forbidSysctls(pod); r != nil {
			got = r.Message
			if r.Reason != "SysctlForbidden" {
				t.Errorf("the reason is %s", r.Reason)
			}
		}
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if err := checkUnsafeSysctls([]string{"kernel.*"}); err == nil {
		t.Error("sysctls of the machine may be allowed")
	}
	if err := checkUnsafeSysctls(k.options.UnsafeSysctls); err != nil {
		t.Error(err)
	}
}
