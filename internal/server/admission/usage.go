package admission

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// mustSpecify are the resources that every container has to name where they are bounded.
var mustSpecify = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
}

// unspecified says what a quota bounds and which containers do not name it.
func unspecified(pod *corev1.Pod, hard corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.Sorted(slices.Values(mustSpecify)) {
		if _, bounded := hard[name]; !bounded {
			continue
		}
		plainName, of := name, requestsOf
		if rest, ok := strings.CutPrefix(string(name), "limits."); ok {
			plainName, of = corev1.ResourceName(rest), limitsOf
		} else if rest, ok := strings.CutPrefix(string(name), "requests."); ok {
			plainName = corev1.ResourceName(rest)
		}
		if pod.Spec.Resources != nil {
			if _, ok := of(pod.Spec.Resources)[plainName]; ok {
				continue
			}
		}
		if names := containersWithout(&pod.Spec, plainName, of); len(names) > 0 {
			parts = append(parts, string(name)+" for: "+strings.Join(names, ","))
		}
	}
	return strings.Join(parts, "; ")
}

func requestsOf(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Requests }

func limitsOf(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Limits }

func containersWithout(spec *corev1.PodSpec, name corev1.ResourceName, of func(*corev1.ResourceRequirements) corev1.ResourceList) []string {
	without := map[string]bool{}
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			if _, ok := of(&containers[i].Resources)[name]; !ok {
				without[containers[i].Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(without))
}
