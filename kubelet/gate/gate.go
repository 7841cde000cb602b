// Package gate decides whether a node admits a pod. It checks again on the node what the scheduler has checked, because pods
// may be bound by others, and because the node may have changed since. Real and hollow nodes ask the same, and answer
// with the kubelet's reasons and messages.
package gate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/demand"
	"github.com/millrace/millrace/kubelet/worker"
)

// Unsuited says why a pod does not belong on a node, whatever room there is. Nil means that it does.
func Unsuited(pod *corev1.Pod, n *corev1.Node) *worker.Rejection {
	if match := demand.NodeMatchOf(&pod.Spec); !match.Matches(n.Name, n.Labels) {
		return &worker.Rejection{Reason: "NodeAffinity", Message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}
	}
	// Taints that only keep the scheduler away do not count here.
	if t := demand.Untolerated(pod.Spec.Tolerations, n.Spec.Taints, corev1.TaintEffectNoExecute); t != nil {
		return &worker.Rejection{Reason: "TaintToleration", Message: fmt.Sprintf("Predicate TaintToleration failed: node(s) had untolerated taint {%s: %s}", t.Key, t.Value)}
	}
	return nil
}
