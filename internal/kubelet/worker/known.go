package worker

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/kubelet/container"
)

// shortestGrace is the grace period of a pod that asks for none: even then its containers are told to stop before they
// are killed.
const shortestGrace = time.Second

// known is what one sync of a pod knows: its definition, what the runtime has of it now, and what this process
// remembers. Its methods answer questions and change nothing.
type known struct {
	crew   *Crew
	key    Key
	record *record
	pod    *corev1.Pod
	state  container.Pod
	now    time.Time
}

// reported returns the status that was reported last, by this kubelet process or by an earlier one.
func (k *known) reported() *corev1.PodStatus {
	if k.record.status != nil {
		return k.record.status
	}
	return &k.pod.Status
}

// startTime returns when the kubelet first saw the pod.
func (k *known) startTime() *metav1.Time { return k.reported().StartTime }

// podIP returns the pod's address, or "" if it has none yet.
func (k *known) podIP() string {
	if s := k.state.Sandbox(); s != nil && len(s.IPs) > 0 {
		return s.IPs[0]
	}
	if k.pod.Spec.HostNetwork {
		if a := k.crew.Addresses(k.pod.Spec.NodeName); len(a) > 0 {
			return a[0]
		}
	}
	return ""
}

// grace returns the grace period of the pod's specification. It is that of a pod whose deadline has passed, too.
func (k *known) grace() time.Duration {
	if s := k.pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return max(demand.Seconds(*s), shortestGrace)
	}
	for i := range k.state.Containers { // the pod's definition is gone
		if g := k.state.Containers[i].Grace; g > 0 {
			return g
		}
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// deletionGrace returns the grace period that the deletion has asked for.
func (k *known) deletionGrace() time.Duration {
	if s := k.pod.DeletionGracePeriodSeconds; s != nil {
		return max(demand.Seconds(*s), shortestGrace)
	}
	return k.grace()
}

// complete reports whether all containers have ended and will not be restarted.
func (k *known) complete() bool {
	if k.initFailed() {
		return true
	}
	for i := range k.pod.Spec.Containers {
		c := &k.pod.Spec.Containers[i]
		run := k.state.Container(c.Name)
		if run == nil || run.State != container.Exited || restarts(k.pod, c, run.ExitCode) {
			return false
		}
	}
	return true
}

func (k *known) logDirectory() string {
	if k.crew.Logs == "" {
		return ""
	}
	return LogDirectory(k.crew.Logs, k.pod)
}

// nextAttempt returns the number of the next run: one more than the runtime or the status has, whichever is higher.
func (k *known) nextAttempt(name string) int32 {
	next := int32(0)
	if run := k.state.Container(name); run != nil {
		next = run.Attempt + 1
	}
	for _, s := range k.reported().ContainerStatuses {
		if s.Name == name && s.ContainerID != "" {
			next = max(next, s.RestartCount+1)
		}
	}
	return next
}

// startDelay returns how long a container that could not be started still waits. Every change of the pod leads to a
// sync, also the status that says why it could not be started; where the reason names something new each time, nothing
// else would slow the attempts down.
func (k *known) startDelay(name string) time.Duration {
	series, ok := k.record.starts[name]
	if !ok {
		return 0
	}
	return min(series.until(series.since).Sub(k.now), series.delay)
}
