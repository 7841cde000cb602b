package kubelet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestAPodThatNeedsAppArmorIsRejectedWithoutIt(t *testing.T) {
	const none = "AppArmor is not enabled on the host"
	profile := func(kind corev1.AppArmorProfileType, name *string) *corev1.AppArmorProfile {
		return &corev1.AppArmorProfile{Type: kind, LocalhostProfile: name}
	}
	for _, c := range []struct {
		what          string
		phase         corev1.PodPhase
		pod, own      *corev1.AppArmorProfile
		problem, want string
	}{
		{"no profile", "", nil, nil, none, ""},
		{"unconfined", "", profile("Unconfined", nil), profile("Unconfined", nil), none, ""},
		{"the pod's", "", profile("RuntimeDefault", nil), nil, none, "Cannot enforce AppArmor: " + none},
		{"a container's", corev1.PodPending, nil, profile("Localhost", new("mine")), none, "Cannot enforce AppArmor: " + none},
		{"one that runs", corev1.PodRunning, profile("RuntimeDefault", nil), nil, none, ""},
		{"with AppArmor", "", profile("RuntimeDefault", nil), profile("Localhost", new("mine")), "", ""},
		{"without a name", "", nil, profile("Localhost", new(" ")), "", "Cannot enforce AppArmor: invalid empty AppArmor profile name"},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{AppArmorProfile: c.pod},
			InitContainers: []corev1.Container{{SecurityContext: &corev1.SecurityContext{AppArmorProfile: c.own}}}}, Status: corev1.PodStatus{Phase: c.phase}}
		got := ""
		if r := forbidArmor(pod, c.problem); r != nil {
			if got = r.Message; r.Reason != "AppArmor" {
				t.Errorf("%s: the reason is %s", c.what, r.Reason)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

func TestTheNodeRejectsPodsForAppArmor(t *testing.T) {
	onNode(t, nil, func(t *testing.T, w *world) {
		w.kubelet.unarmored = "AppArmor is not enabled on the host"
		w.create(podOf("web", func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}}
		}))
		if got, want := w.phase("web")+": "+w.pod("web").Status.Message, "Failed AppArmor: Pod was rejected: Cannot enforce AppArmor: AppArmor is not enabled on the host"; got != want {
			t.Errorf("the pod is %q, want %q", got, want)
		}
	})
}
