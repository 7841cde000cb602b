// Package gate decides whether a node lets a pod in: whether what the scheduler saw, if there was one, is true on the node
// itself. Real and hollow nodes ask the same, in a kubelet's words.
package gate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/klog/v2"

	"github.com/millrace/millrace/kubelet/worker"
)

// Unsuited says why a pod does not belong on a node, whatever room there is. Nil means that it does.
func Unsuited(pod *corev1.Pod, n *corev1.Node) *worker.Rejection {
	if !selected(pod, n) {
		return &worker.Rejection{Reason: "NodeAffinity", Message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}
	}
	if t := intolerable(pod, n.Spec.Taints); t != nil {
		return &worker.Rejection{Reason: "TaintToleration", Message: fmt.Sprintf("Predicate TaintToleration failed: node(s) had untolerated taint {%s: %s}", t.Key, t.Value)}
	}
	return nil
}

func intolerable(pod *corev1.Pod, taints []corev1.Taint) *corev1.Taint {
	for i := range taints {
		t := &taints[i]
		if t.Effect != corev1.TaintEffectNoExecute {
			continue // those that only keep the scheduler away are its business
		}
		if !Tolerates(pod, t) {
			return t
		}
	}
	return nil
}

// Tolerates reports whether a pod tolerates a taint.
func Tolerates(pod *corev1.Pod, t *corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(o corev1.Toleration) bool { return o.ToleratesTaint(klog.Logger{}, t, true) })
}

// selected reports whether a pod's node selector and required affinity choose a node.
func selected(pod *corev1.Pod, n *corev1.Node) bool {
	if !labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(n.Labels)) {
		return false
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	return slices.ContainsFunc(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return len(t.MatchExpressions)+len(t.MatchFields) > 0 && meets(t.MatchExpressions, n.Labels) &&
			meets(t.MatchFields, map[string]string{"metadata.name": n.Name})
	})
}

var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn, corev1.NodeSelectorOpExists: selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist, corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
}

func meets(requirements []corev1.NodeSelectorRequirement, set map[string]string) bool {
	for _, r := range requirements {
		one, err := labels.NewRequirement(r.Key, operators[r.Operator], r.Values)
		if err != nil || !one.Matches(labels.Set(set)) {
			return false
		}
	}
	return true
}
