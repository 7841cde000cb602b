package kubelet

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/gate"
	"github.com/millrace/millrace/internal/kubelet/worker"
)

// resize decides whether the node has room for a pod whose resources have changed.
func (k *Kubelet) resize(pod *corev1.Pod) *worker.Rejection {
	if k.config.Static(pod) {
		return &worker.Rejection{Reason: corev1.PodReasonInfeasible, Message: "In-place resize of static-pods is not supported"}
	}
	claim, room := gate.ClaimOf(pod), k.room()
	if r := room.TooLarge(&claim); r != nil {
		return r
	}
	taken := k.taken(pod)
	if r := taken.Refuse(&claim, &room); r != nil {
		return &worker.Rejection{Reason: corev1.PodReasonDeferred, Message: r.Message}
	}
	return nil
}
