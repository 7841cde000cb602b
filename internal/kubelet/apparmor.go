package kubelet

import (
	"os"
	"runtime"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/worker"
)

// Where the kernel says that it has AppArmor, and that it is enabled.
const (
	armorDirectory = "/sys/kernel/security/apparmor"
	armorEnabled   = "/sys/module/apparmor/parameters/enabled"
)

// armorProblem returns why this machine cannot enforce AppArmor profiles, or "".
func armorProblem() string {
	if runtime.GOOS != "linux" {
		return "binary not compiled for linux"
	}
	_, err := os.Stat(armorDirectory)
	text, unread := os.ReadFile(armorEnabled)
	if err != nil || unread != nil || !strings.HasPrefix(string(text), "Y") {
		return "AppArmor is not enabled on the host"
	}
	return ""
}

// forbidArmor rejects a pod with an AppArmor profile if there is a problem with AppArmor. A pod that runs already is
// left alone.
func forbidArmor(pod *corev1.Pod, problem string) *worker.Rejection {
	if phase := pod.Status.Phase; phase != "" && phase != corev1.PodPending {
		return nil
	}
	profiles := armorProfiles(&pod.Spec)
	if len(profiles) == 0 {
		return nil
	}
	for _, p := range profiles {
		if problem == "" && p.Type == corev1.AppArmorProfileTypeLocalhost && (p.LocalhostProfile == nil || strings.TrimSpace(*p.LocalhostProfile) == "") {
			problem = "invalid empty AppArmor profile name"
		}
	}
	if problem == "" {
		return nil
	}
	return &worker.Rejection{Reason: "AppArmor", Message: "Cannot enforce AppArmor: " + problem}
}

// armorProfiles returns the profiles that a pod needs AppArmor for.
func armorProfiles(spec *corev1.PodSpec) []*corev1.AppArmorProfile {
	var all []*corev1.AppArmorProfile
	add := func(p *corev1.AppArmorProfile) {
		if p != nil && p.Type != corev1.AppArmorProfileTypeUnconfined {
			all = append(all, p)
		}
	}
	if sc := spec.SecurityContext; sc != nil {
		add(sc.AppArmorProfile)
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			if sc := containers[i].SecurityContext; sc != nil {
				add(sc.AppArmorProfile)
			}
		}
	}
	for i := range spec.EphemeralContainers {
		if sc := spec.EphemeralContainers[i].SecurityContext; sc != nil {
			add(sc.AppArmorProfile)
		}
	}
	return all
}
