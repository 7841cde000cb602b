package nodelifecycle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pressures maps the conditions that prevent scheduling to their taints.
var pressures = map[corev1.NodeConditionType]string{
	corev1.NodeMemoryPressure:     corev1.TaintNodeMemoryPressure,
	corev1.NodeDiskPressure:       corev1.TaintNodeDiskPressure,
	corev1.NodePIDPressure:        corev1.TaintNodePIDPressure,
	corev1.NodeNetworkUnavailable: corev1.TaintNodeNetworkUnavailable,
}

// keepsAway returns the keys of the NoSchedule taints that a node should have.
func keepsAway(node *corev1.Node) map[string]bool {
	keys := map[string]bool{}
	for _, c := range node.Status.Conditions {
		if key, ok := pressures[c.Type]; ok && c.Status == corev1.ConditionTrue {
			keys[key] = true
		}
	}
	if key := failureKey(node); key != "" {
		keys[key] = true
	}
	if node.Spec.Unschedulable {
		keys[corev1.TaintNodeUnschedulable] = true
	}
	return keys
}

// failureKey returns the taint for a node that is not ready or unreachable.
func failureKey(node *corev1.Node) string {
	ready := condition(node, corev1.NodeReady)
	switch {
	case ready == nil || ready.Status == corev1.ConditionTrue:
		return ""
	case ready.Status == corev1.ConditionUnknown:
		return corev1.TaintNodeUnreachable
	}
	return corev1.TaintNodeNotReady
}

// ours reports whether a taint is managed by this loop.
func ours(t corev1.Taint) bool {
	switch t.Key {
	case corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable:
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	case corev1.TaintNodeUnschedulable:
		return t.Effect == corev1.TaintEffectNoSchedule
	}
	for _, key := range pressures {
		if t.Key == key {
			return t.Effect == corev1.TaintEffectNoSchedule
		}
	}
	return false
}

// taints returns the taints that a node should have: those of others unchanged, and ours. evicts is the key of the
// NoExecute taint, if it should have one.
func taints(node *corev1.Node, evicts string, now metav1.Time) []corev1.Taint {
	wanted := map[corev1.Taint]bool{} // without their time
	for key := range keepsAway(node) {
		wanted[corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule}] = true
	}
	if evicts != "" {
		wanted[corev1.Taint{Key: evicts, Effect: corev1.TaintEffectNoExecute}] = true
	}
	out := []corev1.Taint{}
	for _, t := range node.Spec.Taints {
		plain := corev1.Taint{Key: t.Key, Effect: t.Effect}
		if !ours(t) || wanted[plain] {
			out = append(out, t)
			delete(wanted, plain)
		}
	}
	var fresh []corev1.Taint
	for t := range wanted {
		t.TimeAdded = &now
		fresh = append(fresh, t)
	}
	slices.SortFunc(fresh, func(a, b corev1.Taint) int {
		return slices.Compare([]string{string(a.Effect), a.Key}, []string{string(b.Effect), b.Key})
	})
	return append(out, fresh...)
}

// evicted returns the key of the node's current NoExecute taint of ours.
func evicted(node *corev1.Node) string {
	for _, t := range node.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoExecute && ours(t) {
			return t.Key
		}
	}
	return ""
}

func condition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}
