package worker

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/demand"
	"github.com/millrace/millrace/kubelet/container"
)

// leastGrace is what a container is given however little time is left.
const leastGrace = 2 * time.Second

// stopAgain is when a container is stopped again that could not be.
const stopAgain = time.Second

// end stops all that runs, and notes when nothing does.
func (t *turn) end(ctx context.Context, grace time.Duration) error {
	by := t.now.Add(grace) // from when this node first saw it: clocks differ
	if t.life.endBy.IsZero() || by.Before(t.life.endBy) {
		t.life.endBy = by
	}
	if t.state.Runs() {
		t.stopAll(ctx, t.life.endBy.Sub(t.now))
		return nil
	}
	for i := range t.state.Sandboxes {
		// One that is not ready may have failed before anybody stopped it, and still have its network.
		if s := &t.state.Sandboxes[i]; s.Ready || !t.life.ended {
			if err := t.crew.Runtime.StopSandbox(ctx, s.ID); err != nil {
				return err
			}
		}
	}
	if !t.life.ended && t.crew.Furnish != nil {
		if err := t.crew.Furnish.Release(ctx, t.key, string(t.life.uid)); err != nil {
			return err
		}
	}
	t.life.ended = true
	t.life.inside.Store(false)
	return nil
}

// stopAll stops the containers proper, and the sidecars after them, in the reverse of the order in which they started.
func (t *turn) stopAll(ctx context.Context, grace time.Duration) {
	alive := 0
	var last *container.Container
	var lastOf *corev1.Container
	for i := range t.pod.Spec.InitContainers {
		c := &t.pod.Spec.InitContainers[i]
		run := t.state.Container(c.Name)
		if run == nil || run.State != container.Running {
			continue
		}
		if demand.Sidecar(c) {
			last, lastOf = run, c
			continue
		}
		t.stopOne(ctx, c, run, grace)
	}
	for i := range t.state.Containers {
		run := &t.state.Containers[i]
		c := find(t.pod, run.Name)
		if run.State != container.Running || isInit(t.pod, run.Name) {
			continue
		}
		alive++
		t.stopOne(ctx, c, run, grace)
	}
	if alive == 0 && last != nil {
		t.stopOne(ctx, lastOf, last, max(grace, leastGrace))
	}
}

func (t *turn) stopOne(ctx context.Context, c *corev1.Container, run *container.Container, grace time.Duration) {
	if c == nil { // its definition is gone: all that is known of it is what was noted when it was made
		c = &corev1.Container{Name: run.Name, Ports: run.Ports, Lifecycle: &corev1.Lifecycle{PreStop: run.PreStop}}
	}
	t.kill(ctx, c, run, grace, "Stopping container "+c.Name)
}

// find is a pod's container of any sort.
func find(pod *corev1.Pod, name string) *corev1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return &pod.Spec.Containers[i]
		}
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return &pod.Spec.InitContainers[i]
		}
	}
	return nil
}

func isInit(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return true
		}
	}
	return false
}

// kill stops a container beside the turns: its preStop hook first, then the signal. The pod is looked at again when it
// has stopped.
func (t *turn) kill(ctx context.Context, c *corev1.Container, run *container.Container, grace time.Duration, why string) {
	by := t.now.Add(grace)
	if !t.life.mayKill(run.ID, by) {
		return
	}
	t.eventOf(c, corev1.EventTypeNormal, "Killing", "%s", why)
	crew, l, key, pod, id := t.crew, t.life, t.key, t.pod, run.ID
	forced := context.WithoutCancel(ctx)
	ip := t.podIP()
	crew.background.Go(func() {
		ctx, cancel := context.WithCancel(forced)
		defer context.AfterFunc(crew.running, cancel)()
		defer cancel()
		if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && grace > 0 {
			crew.preStop(ctx, pod, c, id, ip, grace)
		}
		left := max(time.Until(by), min(grace, leastGrace), 0) // its grace may be over since the last attempt
		err := crew.Runtime.Stop(ctx, id, left)
		l.killed(id)
		if err != nil {
			crew.Logger.Warn("container cannot be stopped, and is tried again", "pod", key, "container", c.Name, "err", err)
			crew.loop.AddAfter(key, stopAgain)
			return
		}
		crew.loop.Add(key)
	})
}

// removePod stops what still runs of a pod that is no longer wanted, and removes it. It returns true once nothing is left.
func (c *Crew) removePod(ctx context.Context, key Key, l *life) (bool, error) {
	pod := l.lastDefinition
	if pod == nil {
		pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: l.uid}}
	}
	t := &turn{crew: c, key: key, life: l, pod: pod, now: c.now()}
	if err := t.look(ctx); err != nil {
		return false, err
	}
	if err := t.end(ctx, t.grace()); err != nil || !l.ended {
		return false, err
	}
	c.probe.forget(l.uid)
	return true, c.clear(ctx, t.state)
}

// clear removes the remains of a pod.
func (c *Crew) clear(ctx context.Context, state container.Pod) error {
	for i := range state.Containers {
		if err := c.Runtime.Remove(ctx, state.Containers[i].ID); err != nil {
			return err
		}
	}
	for i := range state.Sandboxes {
		if err := c.Runtime.StopSandbox(ctx, state.Sandboxes[i].ID); err != nil { // what came after the pod's end nobody stopped
			return err
		}
		if err := c.Runtime.RemoveSandbox(ctx, state.Sandboxes[i].ID); err != nil {
			return err
		}
	}
	return nil
}
