package worker

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/demand"
)

// postStart runs a container's postStart hook. If the hook fails, the container is stopped and restarted as after any
// failure.
func (t *syncTask) postStart(ctx context.Context, c *corev1.Container, id string) {
	t.worker.detach()
	err := t.crew.hook(ctx, t.pod, c, id, t.podIP(), c.Lifecycle.PostStart)
	if err == nil || ctx.Err() != nil {
		return
	}
	t.eventOf(c, corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed: %v", err)
	if readRuntime := t.readRuntime(ctx); readRuntime != nil {
		return
	}
	if run := t.state.Container(c.Name); run != nil {
		t.kill(ctx, c, run, t.grace(), "FailedPostStartHook")
	}
}

// preStop runs a container's preStop hook, for at most its grace period.
func (c *Crew) preStop(ctx context.Context, pod *corev1.Pod, of *corev1.Container, id, ip string, grace time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if err := c.hook(ctx, pod, of, id, ip, of.Lifecycle.PreStop); err != nil {
		c.eventOf(pod, of, corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed: %v", err)
	}
}

func (c *Crew) hook(ctx context.Context, pod *corev1.Pod, of *corev1.Container, id, ip string, h *corev1.LifecycleHandler) error {
	switch {
	case h.Sleep != nil:
		select {
		case <-time.After(demand.Seconds(h.Sleep.Seconds)):
		case <-ctx.Done():
		}
		return nil
	case h.Exec != nil:
		out, err := c.Runtime.Exec(ctx, id, h.Exec.Command)
		if err != nil {
			return err
		}
		if out.ExitCode != 0 {
			return fmt.Errorf("command '%s' exited with %d: %s", join(h.Exec.Command), out.ExitCode, brief(out))
		}
	case h.HTTPGet != nil:
		ok, text, err := c.get(ctx, of, ip, h.HTTPGet)
		if err == nil && !ok {
			err = fmt.Errorf("%s", text)
		}
		return err
	}
	return nil
}
