package kubelet

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Pod Security asks less of pods for Windows, and lets pass what it takes to be safe on any node. The node itself must
// refuse the rest.
func TestTheNodeRefusesWhatPodSecurityTrustsItWith(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		change func(*corev1.Pod)
	}{
		"a pod for Windows": {"PodOSNotSupported", func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }},
		"a pod for nodes with Windows": {"PodOSSelectorNodeLabelDoesNotMatch", func(p *corev1.Pod) {
			p.Labels = map[string]string{corev1.LabelOSStable: string(corev1.Windows)}
		}},
		"a sysctl of the machine": {"SysctlForbidden", func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}}
		}},
		"a safe sysctl with the machine's network": {"SysctlForbidden", func(p *corev1.Pod) {
			p.Spec.HostNetwork = true
			p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "net.ipv4.tcp_syncookies", Value: "0"}}}
		}},
		"an AppArmor profile where there is no AppArmor": {"AppArmor", func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onNode(t, nil, func(t *testing.T, w *world) {
				w.kubelet.unarmored = "this machine has none"
				pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
				if r := w.kubelet.admit(context.Background(), pod); r != nil {
					t.Fatalf("a plain pod is refused: %+v", r)
				}
				test.change(pod)
				if r := w.kubelet.admit(context.Background(), pod); r == nil || r.Reason != test.reason {
					t.Errorf("the node says %+v, want %s", r, test.reason)
				}
			})
		})
	}
}
