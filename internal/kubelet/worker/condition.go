package worker

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/demand"
)

var ownConditions = []corev1.PodConditionType{
	corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
}

// owned reports whether the kubelet writes a condition.
func owned(kind corev1.PodConditionType) bool {
	return slices.Contains(ownConditions, kind) || kind == corev1.PodResizePending || kind == corev1.PodResizeInProgress
}

// finding is the status of a condition with its reason and message.
type finding struct {
	ok              bool
	reason, message string
}

func (d describer) conditions(s, before *corev1.PodStatus) []corev1.PodCondition {
	all := make([]corev1.PodCondition, 0, len(before.Conditions)+len(ownConditions))
	box := d.state.Sandbox()
	containersReady := d.containersReady(s)
	findings := [...]finding{
		{ok: box != nil && box.Ready && (len(box.IPs) > 0 || d.pod.Spec.HostNetwork)},
		d.initializedFinding(s),
		d.ready(s, before, containersReady),
		containersReady,
		{ok: true},
	}
	for i, kind := range ownConditions {
		all = append(all, d.condition(kind, findings[i], before))
	}
	all = append(all, d.resizeConditions(before)...)
	for _, c := range before.Conditions {
		if !owned(c.Type) {
			all = append(all, c)
		}
	}
	return all
}

func (d describer) condition(kind corev1.PodConditionType, f finding, before *corev1.PodStatus) corev1.PodCondition {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: f.reason, Message: f.message, ObservedGeneration: d.pod.Generation}
	if f.ok {
		c.Status = corev1.ConditionTrue
	}
	c.LastTransitionTime = stamp(d.now)
	if was := conditionOf(before, kind); was != nil && was.Status == c.Status {
		c.LastTransitionTime, c.LastProbeTime = was.LastTransitionTime, was.LastProbeTime
	}
	return c
}

func conditionOf(s *corev1.PodStatus, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == kind {
			return &s.Conditions[i]
		}
	}
	return nil
}

func (d describer) initializedFinding(s *corev1.PodStatus) finding {
	if s.Phase == corev1.PodSucceeded {
		return finding{ok: true, reason: "PodCompleted"}
	}
	var incomplete []string
	for i := range s.InitContainerStatuses {
		st, c := &s.InitContainerStatuses[i], &d.pod.Spec.InitContainers[i]
		if demand.Sidecar(c) && (*st.Started || d.initialized()) || !demand.Sidecar(c) && (st.Ready || d.initialized()) {
			continue
		}
		incomplete = append(incomplete, st.Name)
	}
	if len(incomplete) > 0 {
		return finding{reason: "ContainersNotInitialized", message: "containers with incomplete status: " + list(incomplete)}
	}
	return finding{ok: true}
}

func (d describer) containersReady(s *corev1.PodStatus) finding {
	switch s.Phase {
	case corev1.PodSucceeded:
		return finding{reason: "PodCompleted"}
	case corev1.PodFailed:
		return finding{reason: "PodFailed"}
	}
	var unready []string
	for i := range s.InitContainerStatuses {
		if demand.Sidecar(&d.pod.Spec.InitContainers[i]) && !s.InitContainerStatuses[i].Ready {
			unready = append(unready, s.InitContainerStatuses[i].Name)
		}
	}
	for i := range s.ContainerStatuses {
		if !s.ContainerStatuses[i].Ready {
			unready = append(unready, s.ContainerStatuses[i].Name)
		}
	}
	if len(unready) > 0 {
		return finding{reason: "ContainersNotReady", message: "containers with unready status: " + list(unready)}
	}
	return finding{ok: true}
}

// ready computes the Ready condition: all containers are ready, and all readiness gates of the pod are true.
func (d describer) ready(s, before *corev1.PodStatus, containers finding) finding {
	if !containers.ok {
		return containers
	}
	var shut []string
	for _, gate := range d.pod.Spec.ReadinessGates {
		c := conditionOf(&d.pod.Status, gate.ConditionType)
		switch {
		case c == nil:
			shut = append(shut, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case c.Status != corev1.ConditionTrue:
			shut = append(shut, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, c.Status))
		}
	}
	if len(shut) > 0 {
		return finding{reason: "ReadinessGatesNotReady", message: strings.Join(shut, ", ")}
	}
	return finding{ok: true}
}

func list(names []string) string { return "[" + strings.Join(names, " ") + "]" }

// Merge returns the status to write: ours, with the conditions that other components own taken from theirs.
func Merge(ours, theirs *corev1.PodStatus) corev1.PodStatus {
	merged := *ours
	merged.Conditions = make([]corev1.PodCondition, 0, len(ours.Conditions))
	for _, c := range ours.Conditions {
		if owned(c.Type) || c.Type == corev1.DisruptionTarget && c.Reason == corev1.PodReasonTerminationByKubelet {
			merged.Conditions = append(merged.Conditions, c)
		}
	}
	for _, c := range theirs.Conditions {
		if !owned(c.Type) && conditionOf(&merged, c.Type) == nil {
			merged.Conditions = append(merged.Conditions, c)
		}
	}
	merged.NominatedNodeName = theirs.NominatedNodeName
	merged.ResourceClaimStatuses = theirs.ResourceClaimStatuses
	merged.ExtendedResourceClaimStatus = theirs.ExtendedResourceClaimStatus
	if merged.QOSClass == "" {
		merged.QOSClass = theirs.QOSClass
	}
	if theirs.StartTime != nil {
		merged.StartTime = theirs.StartTime
	}
	return merged
}
