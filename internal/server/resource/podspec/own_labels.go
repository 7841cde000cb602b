package podspec

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func MatchOwnLabels(p *corev1.Pod) {
	if a := p.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			matchOwn(p, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if a.PodAntiAffinity != nil {
			matchOwn(p, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	}
	for i := range p.Spec.TopologySpreadConstraints {
		t := &p.Spec.TopologySpreadConstraints[i]
		requireOwn(p, t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn)
	}
}

func matchOwn(p *corev1.Pod, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	one := func(t *corev1.PodAffinityTerm) {
		requireOwn(p, t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn)
		requireOwn(p, t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
	}
	for i := range required {
		one(&required[i])
	}
	for i := range preferred {
		one(&preferred[i].PodAffinityTerm)
	}
}

func requireOwn(p *corev1.Pod, s *metav1.LabelSelector, keys []string, op metav1.LabelSelectorOperator) {
	if s == nil {
		return
	}
	for _, key := range keys {
		if value, has := p.Labels[key]; has {
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: []string{value}})
		}
	}
}
