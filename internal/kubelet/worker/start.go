package worker

import (
	"context"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// start makes a new run of a container. A failure becomes the reason that the container waits for; it is not returned.
func (t *syncTask) start(ctx context.Context, c *corev1.Container) error {
	return t.startBeside(ctx, c, "")
}

// startBeside starts a container that shares the process namespace of target.
func (t *syncTask) startBeside(ctx context.Context, c *corev1.Container, target string) error {
	if left := t.startDelay(c.Name); left > 0 {
		t.syncAfter(left)
		return nil
	}
	ref, ok := t.image(ctx, c)
	if !ok {
		return nil
	}
	volumes, ok := t.volumeImages(ctx, c)
	if !ok {
		return nil
	}
	spec := t.spec(c, ref)
	spec.Target, spec.VolumeImages = target, volumes
	if err := t.furnish(ctx, spec); err != nil {
		if ctx.Err() != nil {
			return err
		}
		t.record.wait(c.Name, "CreateContainerConfigError", err.Error())
		t.eventOf(c, corev1.EventTypeWarning, "Failed", "Error: %v", err)
		t.syncAfter(retryConfig)
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
	t.record.updateVerdict(id, func(v *verdict) { v.begun = true })
	t.eventOf(c, corev1.EventTypeNormal, "Started", "Container started")
	delete(t.record.waits, c.Name)
	delete(t.record.starts, c.Name)
	if earlier := t.state.Container(c.Name); earlier != nil {
		t.record.dropVerdict(earlier.ID)
		t.crew.probe.forgetRun(t.key, c.Name, earlier.ID)
	}
	if c.Lifecycle != nil && c.Lifecycle.PostStart != nil {
		t.postStart(ctx, c, id)
	}
	if err := t.readRuntime(ctx); err != nil || len(t.state.Containers) <= kept {
		return err
	}
	return t.tidy(ctx)
}

// startLimits bound the delay before a container that could not be started is tried again.
var startLimits = Backoff{Initial: 100 * time.Millisecond, Max: 10 * time.Second}

// failed notes why a container could not be started, and has it tried again.
func (t *syncTask) failed(ctx context.Context, c *corev1.Container, reason string, err error) error {
	if ctx.Err() == nil { // otherwise the sync was canceled because the pod must end
		t.record.wait(c.Name, reason, err.Error())
		t.eventOf(c, corev1.EventTypeWarning, "Failed", "Error: %v", err)
		if t.record.starts == nil {
			t.record.starts = map[string]backoff{}
		}
		t.record.starts[c.Name] = t.record.starts[c.Name].next(startLimits, t.crew.now())
	}
	return fmt.Errorf("start container %s of pod %s: %w", c.Name, t.key, err)
}

func (t *syncTask) furnish(ctx context.Context, spec *container.Spec) error {
	if t.crew.Furnish == nil {
		return nil
	}
	return t.crew.Furnish.Furnish(ctx, spec, t.state.Sandbox().IPs)
}

func (k *known) spec(c *corev1.Container, ref string) *container.Spec {
	spec := &container.Spec{Pod: k.pod, Container: c, Hash: Hash(c), ImageRef: ref, Attempt: k.nextAttempt(c.Name)}
	spec.LogPath = filepath.Join(c.Name, fmt.Sprintf("%d.log", spec.Attempt))
	spec.Sandbox = &container.SandboxSpec{Pod: k.pod, Attempt: k.state.Sandbox().Attempt, LogDirectory: k.logDirectory()}
	return spec
}

// Hash returns a hash of those parts of a container that need a new run when they change: the name and the image.
func Hash(c *corev1.Container) uint64 {
	h := fnv.New64a()
	h.Write([]byte(c.Name))
	h.Write([]byte{0})
	h.Write([]byte(c.Image))
	return h.Sum64()
}

// startEphemeral starts each ephemeral container once.
func (t *syncTask) startEphemeral(ctx context.Context) error {
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
