package worker

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/kubelet/container"
)

// minGrace is the shortest grace period of a container, whatever time the pod has left.
const minGrace = 2 * time.Second

// stopRetry is the delay before a failed stop is tried again.
const stopRetry = time.Second

// end stops all containers and then the sandboxes, and sets ended when nothing runs any more.
func (t *syncTask) end(ctx context.Context, grace time.Duration) error {
	by := t.now.Add(grace) // counted from when this node first saw the deletion, because clocks differ between machines
	if t.record.endBy.IsZero() || by.Before(t.record.endBy) {
		t.record.endBy = by
	}
	if t.state.Runs() {
		t.stopAll(ctx, t.record.endBy.Sub(t.now))
		return nil
	}
	for i := range t.state.Sandboxes {
		// A sandbox that is not ready may have failed before it was stopped, and may still have its network.
		if s := &t.state.Sandboxes[i]; s.Ready || !t.record.ended {
			if err := t.crew.Runtime.StopSandbox(ctx, s.ID); err != nil {
				return err
			}
		}
	}
	if !t.record.ended && t.crew.Furnish != nil {
		t.worker.detach() // a volume may hold any number of files
		if err := t.crew.Furnish.Release(ctx, t.key, string(t.record.uid)); err != nil {
			return err
		}
	}
	t.record.ended = true
	t.record.standing.Store(inactive)
	return nil
}

// stopAll stops the ordinary containers first, and then the sidecars in the reverse of their starting order.
func (t *syncTask) stopAll(ctx context.Context, grace time.Duration) {
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
		t.stopOne(ctx, lastOf, last, max(grace, minGrace))
	}
}

func (t *syncTask) stopOne(ctx context.Context, c *corev1.Container, run *container.Container, grace time.Duration) {
	if c == nil { // the definition is gone: use what was stored with the container when it was made
		c = &corev1.Container{Name: run.Name, Ports: run.Ports, Lifecycle: &corev1.Lifecycle{PreStop: run.PreStop}}
	}
	t.kill(ctx, c, run, grace, "Stopping container "+c.Name)
}

// find returns a pod's container or init container by name.
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

// kill stops a container in the background: the preStop hook first, then the runtime's stop. The pod is synced again
// when the container has stopped.
func (t *syncTask) kill(ctx context.Context, c *corev1.Container, run *container.Container, grace time.Duration, why string) {
	by := t.now.Add(grace)
	if !t.record.beginStop(run.ID, by) {
		return
	}
	t.eventOf(c, corev1.EventTypeNormal, "Killing", "%s", why)
	crew, r, key, pod, id := t.crew, t.record, t.key, t.pod, run.ID
	forced := context.WithoutCancel(ctx)
	ip := t.podIP()
	crew.background.Go(func() {
		ctx, cancel := context.WithCancel(forced)
		defer context.AfterFunc(crew.running, cancel)()
		defer cancel()
		if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && grace > 0 {
			crew.preStop(ctx, pod, c, id, ip, grace)
		}
		left := max(time.Until(by), min(grace, minGrace), 0) // the grace period may be over since the last attempt
		err := crew.Runtime.Stop(ctx, id, left)
		r.stopDone(id)
		if err != nil {
			crew.Logger.Warn("container cannot be stopped; will retry", "pod", key, "container", c.Name, "err", err)
			crew.loop.AddAfter(key, stopRetry)
			return
		}
		crew.loop.AddSaying(key, "container "+c.Name+" has been stopped")
	})
}

// removePod stops the containers of a pod that is no longer wanted, and then removes them. It returns true once nothing
// is left.
func (c *Crew) removePod(ctx context.Context, key Key, r *record, d *detachable) (bool, error) {
	pod := r.lastDefinition
	if pod == nil {
		name, _, _ := strings.Cut(key.Name, "/") // see Found
		pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name, UID: r.uid}}
	}
	t := &syncTask{known: known{crew: c, key: key, record: r, pod: pod, now: c.now()}, worker: d}
	if err := t.readRuntime(ctx); err != nil {
		return false, err
	}
	if err := t.end(ctx, t.grace()); err != nil || !r.ended {
		return false, err
	}
	c.probe.forget(r.uid)
	return true, c.clear(ctx, t.state)
}

// clear removes a pod's containers and sandboxes from the runtime.
func (c *Crew) clear(ctx context.Context, state container.Pod) error {
	for i := range state.Containers {
		if err := c.Runtime.Remove(ctx, state.Containers[i].ID); err != nil {
			return err
		}
	}
	for i := range state.Sandboxes {
		if err := c.Runtime.StopSandbox(ctx, state.Sandboxes[i].ID); err != nil { // a sandbox that was made after the pod's end has not been stopped
			return err
		}
		if err := c.Runtime.RemoveSandbox(ctx, state.Sandboxes[i].ID); err != nil {
			return err
		}
	}
	return nil
}
