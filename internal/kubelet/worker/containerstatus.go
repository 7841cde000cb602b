package worker

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/kubelet/container"
)

var (
	yes = true
	no  = false
)

// truth returns a pointer to a shared bool, so that statuses need no copies. Nobody changes it.
func truth(b bool) *bool {
	if b {
		return &yes
	}
	return &no
}

// containers returns the statuses of containers, in the order of specs.
func (d describer) containers(specs []corev1.Container, before []corev1.ContainerStatus, initial bool) []corev1.ContainerStatus {
	if len(specs) == 0 {
		return nil
	}
	statuses := make([]corev1.ContainerStatus, len(specs))
	for i := range specs {
		statuses[i] = d.containerStatus(&specs[i], earlier(before, specs[i].Name), initial)
	}
	return statuses
}

func earlier(all []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

func (d describer) containerStatus(c *corev1.Container, before *corev1.ContainerStatus, initial bool) corev1.ContainerStatus {
	s := corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, Started: truth(false),
		AllocatedResources: c.Resources.Requests, VolumeMounts: mountStatus(c),
	}
	if len(c.Resources.Requests)+len(c.Resources.Limits) > 0 {
		s.Resources = &corev1.ResourceRequirements{Requests: c.Resources.Requests, Limits: c.Resources.Limits}
	}
	if z := d.record.sizing; z != nil {
		if r, ok := z.inForce[c.Name]; ok {
			s.Resources = &corev1.ResourceRequirements{Requests: r.Requests, Limits: r.Limits}
		}
	}
	if d.crew.Health != nil && !initial {
		s.AllocatedResourcesStatus = d.crew.Health(d.pod, c)
	}
	run := d.state.Container(c.Name)
	if run == nil {
		d.absent(c, &s, before, initial)
		return s
	}
	s.Image, s.ImageID, s.ContainerID, s.RestartCount = run.Image, run.ImageRef, run.ID, run.Attempt
	if run.User != nil {
		s.User = &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: run.User.UID, GID: run.User.GID, SupplementalGroups: run.User.Groups}}
	}
	s.State = d.withMessage(c, run)
	if earlier := d.state.Previous(c.Name); earlier != nil && earlier.State == container.Exited {
		s.LastTerminationState = d.withMessage(c, earlier)
	} else if before != nil && before.ContainerID == run.ID {
		s.LastTerminationState = before.LastTerminationState
	}
	d.judgeStatus(c, run, &s, initial)
	if w, ok := d.record.waits[c.Name]; ok && run.State != container.Running && !d.record.ended {
		if run.State == container.Exited {
			s.LastTerminationState = s.State
		}
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: w.reason, Message: w.message}}
	}
	return s
}

// judgeStatus sets Started and Ready from the results of the probes.
func (d describer) judgeStatus(c *corev1.Container, run *container.Container, s *corev1.ContainerStatus, initial bool) {
	switch {
	case run.State == container.Running:
		s.Started = truth(d.started(c, run))
		s.Ready = *s.Started && (c.ReadinessProbe == nil || d.record.verdictOf(run.ID).ready) && (!initial || demand.Sidecar(c))
	case run.State == container.Exited && initial && !demand.Sidecar(c):
		s.Ready = run.ExitCode == 0
	case run.State == container.Created, run.State == container.Unknown:
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	}
}

// absent fills in the status of a container that the runtime does not have.
func (d describer) absent(c *corev1.Container, s, before *corev1.ContainerStatus, initial bool) {
	w, waits := d.record.waits[c.Name]
	switch {
	case before != nil && before.ContainerID != "" && d.vanished(before, initial):
		*s = *before
		s.Ready, s.Started = initial && before.State.Terminated != nil && before.State.Terminated.ExitCode == 0, truth(false)
		if before.State.Running != nil {
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 137, Reason: "ContainerStatusUnknown", ContainerID: before.ContainerID,
				Message: "The container could not be located when the pod was terminated",
			}}
		}
		return
	case waits:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: w.reason, Message: w.message}
	case len(d.pod.Spec.InitContainers) > 0: // init containers still run, or have failed
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
	default:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	}
	if before != nil {
		s.RestartCount, s.LastTerminationState = before.RestartCount, before.LastTerminationState
	}
}

// vanished reports whether the last status of a container that is gone is kept. That is so for init containers, which
// the runtime may have removed, and for all containers once the pod has ended.
func (d describer) vanished(before *corev1.ContainerStatus, initial bool) bool {
	return d.record.ended || demand.Finished(d.pod.Status.Phase) || initial && before.State.Terminated != nil && d.initialized()
}

// withMessage returns a container's state with its termination message.
func (d describer) withMessage(c *corev1.Container, run *container.Container) corev1.ContainerState {
	state := stateOf(run)
	if state.Terminated != nil && d.crew.Furnish != nil {
		if text := d.crew.Furnish.Message(d.pod, c, run); text != "" {
			state.Terminated.Message = text
		}
	}
	return state
}

func mountStatus(c *corev1.Container) []corev1.VolumeMountStatus {
	var all []corev1.VolumeMountStatus
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		s := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			disabled := corev1.RecursiveReadOnlyDisabled
			s.RecursiveReadOnly = &disabled
			if m.RecursiveReadOnly != nil && *m.RecursiveReadOnly != corev1.RecursiveReadOnlyDisabled {
				enabled := corev1.RecursiveReadOnlyEnabled
				s.RecursiveReadOnly = &enabled
			}
		}
		all = append(all, s)
	}
	return all
}
