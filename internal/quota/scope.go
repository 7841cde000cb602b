package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/demand"
)

// Covers reports whether a quota applies to an object. Scopes select pods, except for one that selects persistent
// volume claims.
func Covers(q *corev1.ResourceQuota, o any) bool {
	var all []corev1.ScopedResourceSelectorRequirement
	for _, s := range q.Spec.Scopes {
		all = append(all, corev1.ScopedResourceSelectorRequirement{ScopeName: s, Operator: corev1.ScopeSelectorOpExists})
	}
	if q.Spec.ScopeSelector != nil {
		all = append(all, q.Spec.ScopeSelector.MatchExpressions...)
	}
	for _, s := range all {
		switch o := o.(type) {
		case *corev1.Pod:
			if !podInScope(s, o) {
				return false
			}
		case *corev1.PersistentVolumeClaim:
			if s.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass || !valueInScope(s, o.Spec.VolumeAttributesClassName) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func podInScope(s corev1.ScopedResourceSelectorRequirement, pod *corev1.Pod) bool {
	switch s.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
	case corev1.ResourceQuotaScopeNotTerminating:
		return pod.Spec.ActiveDeadlineSeconds == nil
	case corev1.ResourceQuotaScopeBestEffort:
		return demand.QOSClass(&pod.Spec) == corev1.PodQOSBestEffort
	case corev1.ResourceQuotaScopeNotBestEffort:
		return demand.QOSClass(&pod.Spec) != corev1.PodQOSBestEffort
	case corev1.ResourceQuotaScopePriorityClass:
		var class *string
		if pod.Spec.PriorityClassName != "" {
			class = &pod.Spec.PriorityClassName
		}
		return valueInScope(s, class)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return reachesOtherNamespaces(pod.Spec.Affinity)
	}
	return false
}

func valueInScope(s corev1.ScopedResourceSelectorRequirement, value *string) bool {
	there := value != nil
	switch s.Operator {
	case corev1.ScopeSelectorOpExists, "":
		return there
	case corev1.ScopeSelectorOpDoesNotExist:
		return !there
	case corev1.ScopeSelectorOpIn:
		return there && slices.Contains(s.Values, *value)
	case corev1.ScopeSelectorOpNotIn:
		return !there || !slices.Contains(s.Values, *value)
	}
	return false
}

func reachesOtherNamespaces(a *corev1.Affinity) bool {
	if a == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	take := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		terms = append(terms, required...)
		for _, p := range preferred {
			terms = append(terms, p.PodAffinityTerm)
		}
	}
	if p := a.PodAffinity; p != nil {
		take(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		take(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
}
