package worker

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/demand"
	"github.com/millrace/millrace/kubelet/container"
)

// retryResize is how soon a resize is tried again for which there is no room, or that failed.
const retryResize = 10 * time.Second

// resize brings the resources of containers into force that the pod wants, as far as the node grants them. From here on
// the turn's pod has what is granted.
func (t *turn) resize(ctx context.Context) {
	if !t.resizing() {
		return
	}
	if t.life.sizing == nil {
		t.life.sizing = t.sizesTold()
	}
	z := t.life.sizing
	t.grant(z)
	t.pod = z.apply(t.pod)
	if t.enforce(ctx, z) && z.pending == nil {
		if z.told {
			t.event(corev1.EventTypeNormal, "ResizeCompleted", "Pod resize completed: %s", t.sizesText())
		}
		t.life.sizing = nil
		t.life.granted.Store(nil)
		return
	}
	t.life.granted.Store(t.pod)
	t.again(retryResize)
}

// resizing reports whether there may be something to resize.
func (t *turn) resizing() bool {
	told := t.told()
	return t.life.sizing != nil || told.ObservedGeneration != t.pod.Generation || conditionOf(told, corev1.PodResizePending) != nil ||
		conditionOf(told, corev1.PodResizeInProgress) != nil
}

// sizesTold is what is in force as far as was told, and so what was granted. Containers of which nothing was told have
// what their definitions say.
func (t *turn) sizesTold() *sizing {
	z := &sizing{granted: sizes{}, inForce: sizes{}, replaced: map[string]string{}}
	told := t.told()
	for c := range t.resizables() {
		have := c.Resources
		for _, list := range [][]corev1.ContainerStatus{told.ContainerStatuses, told.InitContainerStatuses} {
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

// resizables are the containers that may be resized: those that stay.
func (t *turn) resizables() func(yield func(*corev1.Container) bool) {
	return func(yield func(*corev1.Container) bool) {
		for i := range t.pod.Spec.InitContainers {
			if c := &t.pod.Spec.InitContainers[i]; demand.Sidecar(c) && !yield(c) {
				return
			}
		}
		for i := range t.pod.Spec.Containers {
			if !yield(&t.pod.Spec.Containers[i]) {
				return
			}
		}
	}
}

// grant asks the node whether it has room for what the pod wants.
func (t *turn) grant(z *sizing) {
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

// enforce makes containers that run have what is granted. It is true once all do.
func (t *turn) enforce(ctx context.Context, z *sizing) bool {
	done := true
	z.failed = nil
	for c := range t.resizables() {
		run := t.state.Container(c.Name)
		differs := changed(z.inForce[c.Name], c.Resources)
		replaced := z.replaced[c.Name]
		switch {
		case len(differs) == 0:
			continue
		case run == nil || run.State == container.Exited || replaced != "" && run.ID != replaced: // the next run has it, or this one
			z.inForce[c.Name] = c.Resources
			delete(z.replaced, c.Name)
			continue
		case !z.told:
			z.told = true
			t.event(corev1.EventTypeNormal, "ResizeStarted", "Pod resize started: %s", t.sizesText())
			t.tell() // that it has begun
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

// sizesText is what events say of sizes.
func (t *turn) sizesText() string {
	type size struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	words := struct {
		Containers []size `json:"containers"`
		Generation int64  `json:"generation"`
	}{Generation: t.pod.Generation}
	for c := range t.resizables() {
		words.Containers = append(words.Containers, size{c.Name, c.Resources})
	}
	text, _ := json.Marshal(words) // of quantities, which can be told
	return string(text)
}

// resizeConditions are those that hold while a resize is under way.
func (t *turn) resizeConditions(before *corev1.PodStatus) (all []corev1.PodCondition) {
	z := t.life.sizing
	if z == nil || t.life.ended {
		return nil
	}
	if z.pending != nil {
		all = append(all, t.condition(corev1.PodResizePending, *z.pending, before))
	}
	switch {
	case z.failed != nil:
		all = append(all, t.condition(corev1.PodResizeInProgress, *z.failed, before))
	case z.told && !z.everywhere():
		all = append(all, t.condition(corev1.PodResizeInProgress, finding{ok: true}, before))
	}
	return all
}

// Granted is a pod with the resources that it was granted, if it wants others.
func (c *Crew) Granted(pod *corev1.Pod) *corev1.Pod {
	c.mu.Lock()
	l := c.lives[Key{Namespace: pod.Namespace, Name: pod.Name}]
	c.mu.Unlock()
	if l != nil {
		if granted := l.granted.Load(); granted != nil && granted.UID == pod.UID {
			return granted
		}
	}
	return pod
}
