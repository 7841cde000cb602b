package worker

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/kubelet/container"
)

// describer describes a pod: it computes the status from what is known. It changes nothing, so a status can be
// described at any time.
type describer struct{ *known }

// reportStatus reports the status if it has changed, or if the pod's end is still to be reported.
func (t *syncTask) reportStatus(ctx context.Context) {
	before := t.reported()
	status := describer{&t.known}.status(before)
	ended := t.record.ended && !t.state.Runs()
	owed := ended && t.pod.DeletionTimestamp != nil && !t.record.endReported
	if !owed && before.StartTime != nil && equality.Semantic.DeepEqual(ownPart(before), ownPart(status)) {
		if t.crew.Furnish != nil && t.record.last.Load() == nil {
			t.record.last.Store(before)
		}
		if !t.statusOverwritten() {
			return
		}
	}
	t.tellTerminated(before, status)
	t.record.status, t.record.reportedVersion = status, t.pod.ResourceVersion
	if t.crew.Furnish != nil {
		t.record.last.Store(status)
	}
	t.record.endReported = ended && t.pod.DeletionTimestamp != nil
	t.crew.Report(ctx, t.pod, status, ended)
}

// statusOverwritten reports whether the API shows another status than the one reported, although the pod was written
// since. The other writer may have come later (the node lifecycle controller marks pods of a silent node) or earlier.
// Reporting again does no harm in either case.
func (t *syncTask) statusOverwritten() bool {
	if t.record.status == nil {
		return false
	}
	api, reported := ownPart(&t.pod.Status), ownPart(t.record.status)
	if reflect.DeepEqual(api, reported) {
		t.record.status = nil // the API has this status, so it need not be kept here
		return false
	}
	return t.pod.ResourceVersion != t.record.reportedVersion && !equality.Semantic.DeepEqual(api, reported)
}

// OwnPart returns the part of a status that the kubelet owns.
func OwnPart(s *corev1.PodStatus) *corev1.PodStatus { return ownPart(s) }

func ownPart(s *corev1.PodStatus) *corev1.PodStatus {
	own := *s
	own.NominatedNodeName, own.ResourceClaimStatuses, own.ExtendedResourceClaimStatus = "", nil, nil
	own.Conditions = make([]corev1.PodCondition, 0, len(s.Conditions))
	for _, c := range s.Conditions {
		if owned(c.Type) {
			own.Conditions = append(own.Conditions, c)
		}
	}
	return &own
}

// status computes the pod's status.
func (d describer) status(before *corev1.PodStatus) *corev1.PodStatus {
	s := &corev1.PodStatus{
		ObservedGeneration: d.pod.Generation,
		StartTime:          before.StartTime,
		QOSClass:           before.QOSClass,
		Reason:             before.Reason,
		Message:            before.Message,
		Conditions:         before.Conditions,
	}
	if s.StartTime == nil {
		s.StartTime = &metav1.Time{Time: d.now.Truncate(time.Second)}
	}
	d.addresses(s, before)
	if d.record.failed != nil && len(d.state.Sandboxes) == 0 && !admittedBefore(before) {
		return d.rejected(s, before)
	}
	s.InitContainerStatuses = d.containers(d.pod.Spec.InitContainers, before.InitContainerStatuses, true)
	s.ContainerStatuses = d.containers(d.pod.Spec.Containers, before.ContainerStatuses, false)
	s.EphemeralContainerStatuses = d.ephemeral(before.EphemeralContainerStatuses)
	s.Phase = d.phase(s, before)
	if d.record.failed != nil && !demand.Finished(before.Phase) {
		s.Phase = corev1.PodFailed
	}
	s.Conditions = d.conditions(s, before)
	d.conclude(s, before)
	return s
}

// conclude reports the pod's end only when no container runs any more: until then somebody may still use what the pod
// has. Its conditions say earlier that it is not ready, and that it is being evicted; from the latter a kubelet that
// restarts knows that it must go on.
func (d describer) conclude(s, before *corev1.PodStatus) {
	if why := d.record.eviction.Load(); why != nil {
		evicted := d.condition(corev1.DisruptionTarget, finding{true, corev1.PodReasonTerminationByKubelet, why.Message}, before)
		s.Conditions = append(slices.DeleteFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget }), evicted)
	}
	switch {
	case demand.Finished(before.Phase): // the reason was reported with the phase
	case demand.Finished(s.Phase) && d.state.Runs():
		s.Phase = cmp.Or(before.Phase, corev1.PodPending)
	case d.record.failed != nil:
		s.Reason, s.Message = d.record.failed.Reason, d.record.failed.Message
	}
}

// admittedBefore reports whether the pod was admitted according to its last status.
func admittedBefore(before *corev1.PodStatus) bool { return len(before.ContainerStatuses) > 0 }

// rejected fills in the status of a pod that the node rejects.
func (d describer) rejected(s, before *corev1.PodStatus) *corev1.PodStatus {
	s.Phase, s.Reason, s.Message = corev1.PodFailed, d.record.failed.Reason, "Pod was rejected: "+d.record.failed.Message
	s.Conditions = before.Conditions
	return s
}

func (d describer) addresses(s, before *corev1.PodStatus) {
	hosts := d.crew.Addresses(d.pod.Spec.NodeName)
	for _, a := range hosts {
		s.HostIPs = append(s.HostIPs, corev1.HostIP{IP: a})
	}
	ips := []string(nil)
	if box := d.state.Sandbox(); box != nil {
		ips = box.IPs
	}
	if d.pod.Spec.HostNetwork && len(d.state.Sandboxes) > 0 {
		ips = hosts
	}
	for _, ip := range ips {
		s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: ip})
	}
	if len(s.PodIPs) == 0 && (d.record.ended || demand.Finished(before.Phase)) { // a pod that has ended keeps its addresses
		s.PodIPs = before.PodIPs
	}
	if len(s.HostIPs) > 0 {
		s.HostIP = s.HostIPs[0].IP
	}
	if len(s.PodIPs) > 0 {
		s.PodIP = s.PodIPs[0].IP
	}
}

// phase computes the pod's phase from the container statuses.
func (d describer) phase(s *corev1.PodStatus, before *corev1.PodStatus) corev1.PodPhase {
	if demand.Finished(before.Phase) {
		return before.Phase
	}
	over := d.record.ended || d.complete() && !d.state.Runs()
	for i := range s.InitContainerStatuses {
		st, c := &s.InitContainerStatuses[i], &d.pod.Spec.InitContainers[i]
		if demand.Sidecar(c) {
			if !over && !d.initialized() && (st.Started == nil || !*st.Started) {
				return corev1.PodPending
			}
			continue
		}
		ended := st.State.Terminated
		if ended != nil && ended.ExitCode != 0 && (over || !restarts(d.pod, c, ended.ExitCode)) {
			return corev1.PodFailed
		}
		if (ended == nil || ended.ExitCode != 0) && !d.initialized() {
			if over {
				return corev1.PodFailed
			}
			return corev1.PodPending
		}
	}
	return d.phaseOf(s.ContainerStatuses, over)
}

func (d describer) phaseOf(statuses []corev1.ContainerStatus, over bool) corev1.PodPhase {
	var waiting, running, stopped, succeeded int
	for i := range statuses {
		st := &statuses[i]
		switch {
		case st.State.Running != nil:
			running++
		case st.State.Terminated != nil:
			stopped++
			if st.State.Terminated.ExitCode == 0 {
				succeeded++
			}
		case st.LastTerminationState.Terminated != nil:
			stopped++
		default:
			waiting++
		}
	}
	switch {
	case over && succeeded == len(statuses):
		return corev1.PodSucceeded
	case over:
		return corev1.PodFailed
	case waiting > 0:
		return corev1.PodPending
	}
	return corev1.PodRunning
}

// ephemeral returns the statuses of the ephemeral containers.
func (d describer) ephemeral(before []corev1.ContainerStatus) []corev1.ContainerStatus {
	var all []corev1.Container
	for i := range d.pod.Spec.EphemeralContainers {
		all = append(all, corev1.Container(d.pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	statuses := d.containers(all, before, false)
	for i := range statuses {
		statuses[i].Started, statuses[i].Ready = nil, false
		statuses[i].AllocatedResources, statuses[i].Resources = nil, nil
	}
	return statuses
}

func stateOf(run *container.Container) corev1.ContainerState {
	switch run.State {
	case container.Running:
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: stamp(run.StartedAt)}}
	case container.Exited:
		return corev1.ContainerState{Terminated: terminated(run)}
	}
	return corev1.ContainerState{}
}

func terminated(run *container.Container) *corev1.ContainerStateTerminated {
	reason := run.Reason
	if reason == "" {
		reason = "Completed"
		if run.ExitCode != 0 {
			reason = "Error"
		}
	}
	return &corev1.ContainerStateTerminated{
		ExitCode: run.ExitCode, Reason: reason, Message: run.Message, ContainerID: run.ID,
		StartedAt: stamp(run.StartedAt), FinishedAt: stamp(run.FinishedAt),
	}
}

// stamp truncates a time to seconds, as the API does, so that it is equal to what is read back.
func stamp(at time.Time) metav1.Time {
	if at.IsZero() {
		return metav1.Time{}
	}
	return metav1.Time{Time: at.Truncate(time.Second)}
}
