// Package gate decides whether a node admits a pod. It repeats the scheduler's checks on the node, because other
// components may bind pods, and because the node may have changed since. Real and hollow nodes use the same checks,
// with the kubelet's reasons and messages.
package gate

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/kubelet/worker"
)

// readTime bounds the request of Rejection: other pods wait for their admission meanwhile.
const readTime = 5 * time.Second

// Rejection is RejectionFor a node as the cache has it and, if that refuses the pod, as the API server has it: the pod
// may have been bound because of a change of the node that the cache does not show yet, and a rejection is final.
func Rejection(ctx context.Context, kube kubernetes.Interface, pod *corev1.Pod, cached *corev1.Node) *worker.Rejection {
	refused := RejectionFor(pod, cached)
	if refused == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	now, err := kube.CoreV1().Nodes().Get(ctx, cached.Name, metav1.GetOptions{})
	if err != nil {
		return refused
	}
	return RejectionFor(pod, now)
}

// WrongSystem returns why a pod must not run under an operating system ("linux"), or nil. An unknown one ("") takes
// all.
func WrongSystem(pod *corev1.Pod, system string) *worker.Rejection {
	label, labelled := pod.Labels[corev1.LabelOSStable]
	switch {
	case system == "":
	case labelled && label != system:
		return &worker.Rejection{Reason: "PodOSSelectorNodeLabelDoesNotMatch", Message: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"}
	case pod.Spec.OS != nil && string(pod.Spec.OS.Name) != system:
		return &worker.Rejection{Reason: "PodOSNotSupported", Message: "Failed to admit pod as the OS field doesn't match node OS"}
	}
	return nil
}

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
