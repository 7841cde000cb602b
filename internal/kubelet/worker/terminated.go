package worker

import corev1 "k8s.io/api/core/v1"

// tellTerminated tells Terminated of the runs of containers that have ended and that the status before did not know as
// ended.
func (t *syncTask) tellTerminated(before, now *corev1.PodStatus) {
	if t.crew.Terminated == nil {
		return
	}
	for _, k := range [...]struct {
		kind        string
		before, now []corev1.ContainerStatus
	}{
		{"container", before.ContainerStatuses, now.ContainerStatuses},
		{"init_container", before.InitContainerStatuses, now.InitContainerStatuses},
		{"ephemeral_container", before.EphemeralContainerStatuses, now.EphemeralContainerStatuses},
	} {
		for i := range k.now {
			s := &k.now[i]
			if end := lastTermination(s); end != nil && end.ContainerID != lastTerminated(earlier(k.before, s.Name)) {
				t.crew.Terminated(k.kind, end)
			}
		}
	}
}

// lastTermination returns the end of the newest run that has ended.
func lastTermination(s *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if s.State.Terminated != nil {
		return s.State.Terminated
	}
	return s.LastTerminationState.Terminated
}

// lastTerminated returns the ID of the newest run that has ended, or "" if none has.
func lastTerminated(s *corev1.ContainerStatus) string {
	if s == nil {
		return ""
	}
	end := lastTermination(s)
	if end == nil {
		return ""
	}
	return end.ContainerID
}
