package worker

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/kubelet/container"
)

// retryResize is the delay before a resize is tried again that had no room or failed.
const retryResize = 10 * time.Second

// resize applies the resources that the pod asks for, as far as the node grants them. After it, t.pod has the granted
// resources.
func (t *syncTask) resize(ctx context.Context) {
	if !t.resizing() {
		return
	}
	if t.record.sizing == nil {
		t.record.sizing = t.sizesTold()
	}
	z := t.record.sizing
	t.grant(z)
	t.pod = z.apply(t.pod)
	if t.enforce(ctx, z) && z.pending == nil {
		if z.reported {
			t.event(corev1.EventTypeNormal, "ResizeCompleted", "Pod resize completed: %s", t.sizesText())
		}
		t.record.sizing = nil
		t.record.granted.Store(nil)
		return
	}
	t.record.granted.Store(t.pod)
	t.syncAfter(retryResize)
}

// resizing reports whether a resize may be needed.
func (k *known) resizing() bool {
	reported := k.reported()
	return k.record.sizing != nil || reported.ObservedGeneration != k.pod.Generation || conditionOf(reported, corev1.PodResizePending) != nil ||
		conditionOf(reported, corev1.PodResizeInProgress) != nil
}

// sizesTold returns the resources that are in force according to the reported status. They were granted before.
// Containers without a reported status have the resources of their definition.
func (k *known) sizesTold() *sizing {
	z := &sizing{granted: sizes{}, inForce: sizes{}, replaced: map[string]string{}}
	reported := k.reported()
	for c := range k.resizables() {
		have := c.Resources
		for _, list := range [][]corev1.ContainerStatus{reported.ContainerStatuses, reported.InitContainerStatuses} {
			s := earlier(list, c.Name)
			switch {
			case s == nil || s.ContainerID == "":
			case s.Resources == nil:
				have = corev1.ResourceRequirements{}
			default:
				have = *s.Resources
			}
		}
		z.granted[c.Name], z.inForce[c.Name] = have, have
	}
	return z
}

// resizables ranges over the containers that can be resized.
func (k *known) resizables() func(yield func(*corev1.Container) bool) {
	return func(yield func(*corev1.Container) bool) {
		for i := range k.pod.Spec.InitContainers {
			if c := &k.pod.Spec.InitContainers[i]; demand.Sidecar(c) && !yield(c) {
				return
			}
		}
		for i := range k.pod.Spec.Containers {
			if !yield(&k.pod.Spec.Containers[i]) {
				return
			}
		}
	}
}

// grant asks the node whether it has room for the wanted resources.
func (t *syncTask) grant(z *sizing) {
	wanted := false
	for c := range t.resizables() {
		wanted = wanted || len(changed(z.granted[c.Name], c.Resources)) > 0
	}
	if !wanted {
		z.pending = nil
		return
	}
	t.crew.admission.Lock()
	defer t.crew.admission.Unlock()
	if t.crew.Resize != nil {
		if why := t.crew.Resize(t.pod); why != nil {
			if z.pending == nil || z.pending.reason != why.Reason {
				t.event(corev1.EventTypeWarning, "Resize"+why.Reason, "Pod resize %s: %s", why.Reason, why.Message)
			}
			z.pending = &finding{true, why.Reason, why.Message}
			return
		}
	}
	z.pending = nil
	for c := range t.resizables() {
		z.granted[c.Name] = c.Resources
	}
}

// enforce applies the granted resources to the running containers. It returns true once all have them.
func (t *syncTask) enforce(ctx context.Context, z *sizing) bool {
	done := true
	z.failed = nil
	for c := range t.resizables() {
		run := t.state.Container(c.Name)
		differs := changed(z.inForce[c.Name], c.Resources)
		replaced := z.replaced[c.Name]
		switch {
		case len(differs) == 0:
			continue
		case run == nil || run.State == container.Exited || replaced != "" && run.ID != replaced: // the new run will have, or has, the granted resources
			z.inForce[c.Name] = c.Resources
			delete(z.replaced, c.Name)
			continue
		case !z.reported:
			z.reported = true
			t.event(corev1.EventTypeNormal, "ResizeStarted", "Pod resize started: %s", t.sizesText())
			t.reportStatus(ctx) // so that the status shows that the resize has begun
		}
		switch {
		case run.State != container.Running:
			done = false
		case needsRestart(c, differs):
			done = false
			z.replaced[c.Name] = run.ID
			t.kill(ctx, c, run, t.grace(), "Container "+c.Name+" resize requires restart")
		default:
			if err := t.crew.Runtime.Resize(ctx, run.ID, t.pod, c); err != nil {
				done = false
				z.failed = &finding{true, corev1.PodReasonError, err.Error()}
				t.event(corev1.EventTypeWarning, "ResizeError", "Pod resize error: %v", err)
				continue
			}
			z.inForce[c.Name] = c.Resources
		}
	}
	return done
}

// sizesText formats resources for event messages.
func (k *known) sizesText() string {
	type size struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	words := struct {
		Containers []size `json:"containers"`
		Generation int64  `json:"generation"`
	}{Generation: k.pod.Generation}
	for c := range k.resizables() {
		words.Containers = append(words.Containers, size{c.Name, c.Resources})
	}
	text, _ := json.Marshal(words) // quantities can always be encoded
	return string(text)
}

// resizeConditions returns the PodResizePending and PodResizeInProgress conditions.
func (d describer) resizeConditions(before *corev1.PodStatus) (all []corev1.PodCondition) {
	z := d.record.sizing
	if z == nil || d.record.ended {
		return nil
	}
	if z.pending != nil {
		all = append(all, d.condition(corev1.PodResizePending, *z.pending, before))
	}
	switch {
	case z.failed != nil:
		all = append(all, d.condition(corev1.PodResizeInProgress, *z.failed, before))
	case z.reported && !z.everywhere():
		all = append(all, d.condition(corev1.PodResizeInProgress, finding{ok: true}, before))
	}
	return all
}

// Granted returns the pod with the resources that it was granted, if they differ from those it asks for.
func (c *Crew) Granted(pod *corev1.Pod) *corev1.Pod {
	c.mu.Lock()
	r := c.records[Key{Namespace: pod.Namespace, Name: pod.Name}]
	c.mu.Unlock()
	if r != nil {
		if granted := r.granted.Load(); granted != nil && granted.UID == pod.UID {
			return granted
		}
	}
	return pod
}
