package kubelet

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/kubelet/source"
	"github.com/millrace/millrace/kubelet/worker"
)

// resize decides whether the node has room for a pod whose resources have changed.
func (k *Kubelet) resize(pod *corev1.Pod) *worker.Rejection {
	if source.Static(pod) {
		return &worker.Rejection{Reason: corev1.PodReasonInfeasible, Message: "In-place resize of static-pods is not supported"}
	}
	room := k.allocatable()
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		asked, has := amount(pod, name), room[name]
		if asked.Cmp(has) > 0 {
			return &worker.Rejection{Reason: corev1.PodReasonInfeasible, Message: fmt.Sprintf(
				"Node didn't have enough capacity: %s, requested: %d, capacity: %d", name, number(name, asked), number(name, has))}
		}
	}
	if r := fits(pod, k.others(pod), room); r != nil {
		return &worker.Rejection{Reason: corev1.PodReasonDeferred, Message: r.Message}
	}
	return nil
}
