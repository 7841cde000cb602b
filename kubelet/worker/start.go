package worker

import (
	"context"
	"fmt"
	"hash/fnv"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/kubelet/container"
)

// start makes a new run of a container. What hinders it becomes the reason the container waits for, not an error.
func (t *turn) start(ctx context.Context, c *corev1.Container) error {
	return t.startBeside(ctx, c, "")
}

// startBeside starts a container that sees the processes of another.
func (t *turn) startBeside(ctx context.Context, c *corev1.Container, target string) error {
	ref, ok := t.image(ctx, c)
	if !ok {
		return nil
	}
	spec := t.spec(c, ref)
	spec.Target = target
	if err := t.furnish(ctx, spec); err != nil {
		if ctx.Err() != nil {
			return err
		}
		t.life.wait(c.Name, "CreateContainerConfigError", err.Error())
		t.eventOf(c, corev1.EventTypeWarning, "Failed", "Error: %v", err)
		t.again(retryConfig)
		return nil
	}
	id, err := t.crew.Runtime.Create(ctx, t.state.Sandbox().ID, spec)
	if err != nil {
		return t.failed(ctx, c, "CreateContainerError", err)
	}
	t.eventOf(c, corev1.EventTypeNormal, "Created", "Container created")
	if err := t.crew.Runtime.Start(ctx, id); err != nil {
		return t.failed(ctx, c, "RunContainerError", err)
	}
	t.life.judge(id, func(v *verdict) { v.begun = true })
	t.eventOf(c, corev1.EventTypeNormal, "Started", "Container started")
	delete(t.life.waits, c.Name)
	if earlier := t.state.Container(c.Name); earlier != nil {
		t.life.dropVerdict(earlier.ID)
		t.crew.probe.forgetRun(t.key, c.Name, earlier.ID)
	}
	if c.Lifecycle != nil && c.Lifecycle.PostStart != nil {
		t.postStart(ctx, c, id)
	}
	if err := t.look(ctx); err != nil || len(t.state.Containers) <= kept {
		return err
	}
	return t.tidy(ctx)
}

// failed notes what hindered a container, and has it tried again.
func (t *turn) failed(ctx context.Context, c *corev1.Container, reason string, err error) error {
	if ctx.Err() == nil { // else the pod's end has interrupted it
		t.life.wait(c.Name, reason, err.Error())
		t.eventOf(c, corev1.EventTypeWarning, "Failed", "Error: %v", err)
	}
	return fmt.Errorf("start container %s of pod %s: %w", c.Name, t.key, err)
}

func (t *turn) furnish(ctx context.Context, spec *container.Spec) error {
	if t.crew.Furnish == nil {
		return nil
	}
	return t.crew.Furnish.Furnish(ctx, spec, t.state.Sandbox().IPs)
}

func (t *turn) spec(c *corev1.Container, ref string) *container.Spec {
	spec := &container.Spec{Pod: t.pod, Container: c, Hash: Hash(c), ImageRef: ref, Attempt: t.nextAttempt(c.Name)}
	spec.LogPath = filepath.Join(c.Name, fmt.Sprintf("%d.log", spec.Attempt))
	spec.Sandbox = &container.SandboxSpec{Pod: t.pod, Attempt: t.state.Sandbox().Attempt, LogDirectory: t.logDirectory()}
	return spec
}

// nextAttempt counts on from what the runtime has, or from what the status tells, whichever is further.
func (t *turn) nextAttempt(name string) int32 {
	next := int32(0)
	if run := t.state.Container(name); run != nil {
		next = run.Attempt + 1
	}
	for _, s := range t.told().ContainerStatuses {
		if s.Name == name && s.ContainerID != "" {
			next = max(next, s.RestartCount+1)
		}
	}
	return next
}

// Hash tells definitions of a container apart that need a new run. Only the name and the image do.
func Hash(c *corev1.Container) uint64 {
	h := fnv.New64a()
	h.Write([]byte(c.Name))
	h.Write([]byte{0})
	h.Write([]byte(c.Image))
	return h.Sum64()
}

// startEphemeral starts ephemeral containers, each once.
func (t *turn) startEphemeral(ctx context.Context) error {
	for i := range t.pod.Spec.EphemeralContainers {
		c := corev1.Container(t.pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		if t.state.Container(c.Name) != nil {
			continue
		}
		target := ""
		if run := t.state.Container(t.pod.Spec.EphemeralContainers[i].TargetContainerName); run != nil {
			target = run.ID
		}
		if err := t.startBeside(ctx, &c, target); err != nil {
			return err
		}
	}
	return nil
}
