package daemonset

import (
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// generationLabel is an older label for the template that a pod was made from.
const generationLabel = appsv1.DeprecatedTemplateGeneration

// podFor returns the pod for a node.
func (s *state) podFor(node string) *corev1.Pod {
	t := &s.ds.Spec.Template
	marked := maps.Clone(t.Labels)
	if marked == nil {
		marked = map[string]string{}
	}
	marked[appsv1.ControllerRevisionHashLabelKey] = s.hash
	if generation := s.generation(); generation != "" {
		marked["pod-template-generation"] = generation
	}
	spec := t.Spec
	spec.Tolerations = tolerations(&t.Spec)
	spec.Affinity = affinityTo(t.Spec.Affinity, node)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: s.ds.Name + "-", Namespace: s.ds.Namespace, Labels: marked, Annotations: t.Annotations, Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.ds, kind)},
		},
		Spec: spec,
	}
}

// generation returns the template's generation, if the DaemonSet has one.
func (s *state) generation() string {
	text := s.ds.Annotations[generationLabel]
	if _, err := strconv.ParseInt(text, 10, 64); err != nil {
		return ""
	}
	return text
}

// tolerations adds tolerations that let a pod stay on a node with problems: programs that look after nodes are needed
// most then.
func tolerations(pod *corev1.PodSpec) []corev1.Toleration {
	all := slices.Clone(pod.Tolerations)
	add := func(key string, effect corev1.TaintEffect) {
		wanted := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
		for i := range all {
			if all[i].MatchToleration(&wanted) {
				all[i] = wanted
				return
			}
		}
		all = append(all, wanted)
	}
	add(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)
	if pod.HostNetwork {
		add(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)
	}
	return all
}

// affinityTo returns an affinity that only matches one node.
func affinityTo(a *corev1.Affinity, node string) *corev1.Affinity {
	out := a.DeepCopy()
	if out == nil {
		out = &corev1.Affinity{}
	}
	if out.NodeAffinity == nil {
		out.NodeAffinity = &corev1.NodeAffinity{}
	}
	out.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}
	return out
}
