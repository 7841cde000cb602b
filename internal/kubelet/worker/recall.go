package worker

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/kubelet/container"
)

// Evicted is the reason of a pod that the node has ended because a resource ran short.
const Evicted = "Evicted"

// recall takes over what an earlier kubelet process knew of the pod: it reads the reported status and the runtime, once
// for each record, before anything is decided. A probe's verdict counts only for the run that it was about.
// docs/kubelet-restart.md lists every field.
func (t *syncTask) recall() {
	if t.record.recalled {
		return
	}
	t.record.recalled = true
	t.record.prepared = t.state.Runs() // a container is made only after its volumes are ready
	told := &t.pod.Status
	for _, list := range [][]corev1.ContainerStatus{told.InitContainerStatuses, told.ContainerStatuses} {
		for i := range list {
			t.recallVerdict(&list[i])
		}
	}
	if c := conditionOf(told, corev1.DisruptionTarget); c != nil && evictedHere(c) && !demand.Finished(told.Phase) {
		t.record.eviction.CompareAndSwap(nil, &Rejection{Reason: Evicted, Message: c.Message})
	}
}

// recallVerdict takes over whether a running container has started and is ready. Failures are counted anew, as
// Kubernetes does.
func (t *syncTask) recallVerdict(told *corev1.ContainerStatus) {
	run := t.state.Container(told.Name)
	if told.State.Running == nil || run == nil || run.State != container.Running || run.ID != told.ContainerID {
		return
	}
	t.record.updateVerdict(run.ID, func(v *verdict) {
		v.begun, v.started, v.ready = true, told.Started != nil && *told.Started, told.Ready
	})
}

// evictedHere reports whether a DisruptionTarget condition was written by the pod's kubelet.
func evictedHere(c *corev1.PodCondition) bool {
	return c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonTerminationByKubelet
}
