// Package gate decides whether a node admits a pod. It repeats the scheduler's checks on the node, because other components may
// bind pods, and because the node may have changed since. Real and hollow nodes use the same checks, with the kubelet's reasons
// and messages.
package gate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/demand"
	"github.com/millrace/millrace/kubelet/worker"
)

// RejectionFor returns why a pod must not run on a node, whatever resources are free, or nil.
func RejectionFor(pod *corev1.Pod, n *corev1.Node) *worker.Rejection {
	if match := demand.NodeMatchOf(&pod.Spec); !match.Matches(n.Name, n.Labels) {
		return &worker.Rejection{Reason: "NodeAffinity", Message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}
	}
	// NoSchedule taints are ignored here.
	if t := demand.Untolerated(pod.Spec.Tolerations, n.Spec.Taints, corev1.TaintEffectNoExecute); t != nil {
		return &worker.Rejection{Reason: "TaintToleration", Message: fmt.Sprintf("Predicate TaintToleration failed: node(s) had untolerated taint {%s: %s}", t.Key, t.Value)}
	}
	return nil
}
