package worker

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/kubelet/container"
)

// keep sees to it that a container runs, if it is to run.
func (t *turn) keep(ctx context.Context, c *corev1.Container, initial bool) error {
	run := t.state.Container(c.Name)
	if initial {
		run = t.initRun(c.Name)
	}
	switch {
	case run == nil:
		return t.start(ctx, c)
	case run.State == container.Running:
		t.replaceIfNeeded(ctx, c, run)
		return nil
	case run.State == container.Created && t.life.of(run.ID).begun:
		return nil
	case run.State == container.Created: // the kubelet that made it ended before it could start it
		if err := t.crew.Runtime.Remove(ctx, run.ID); err != nil {
			return err
		}
		return t.start(ctx, c)
	case run.State == container.Unknown:
		t.kill(ctx, c, run, t.grace(), "container is in unknown state")
		return nil
	}
	if !restarts(t.pod, c, run.ExitCode) || t.life.dying(run.ID) || !t.mayRestart(c, run) {
		return nil
	}
	return t.start(ctx, c)
}

// mayRestart is false while a container that crashed must wait.
func (t *turn) mayRestart(c *corev1.Container, run *container.Container) bool {
	series := t.life.crashes[c.Name]
	ended := t.life.endOf(run, t.now)
	if !series.since.Equal(ended) {
		left := series.until(ended).Sub(t.now)
		if series.delay > 0 && left > 0 && ended.Sub(series.since) <= 2*t.crew.Backoff.Max {
			where := fmt.Sprintf("restarting failed container=%s pod=%s_%s(%s)", c.Name, t.pod.Name, t.pod.Namespace, t.pod.UID)
			t.life.wait(c.Name, "CrashLoopBackOff", fmt.Sprintf("back-off %s %s", series.delay, where))
			t.eventOf(c, corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container %s in pod %s_%s(%s)", c.Name, t.pod.Name, t.pod.Namespace, t.pod.UID)
			t.again(left)
			return false
		}
		if t.life.crashes == nil {
			t.life.crashes = map[string]backoff{}
		}
		t.life.crashes[c.Name] = series.next(t.crew.Backoff, ended)
	}
	return true
}

// replaceIfNeeded stops a container that is unhealthy or was made from another definition.
func (t *turn) replaceIfNeeded(ctx context.Context, c *corev1.Container, run *container.Container) {
	if t.life.dying(run.ID) {
		return
	}
	if why := t.life.of(run.ID).condemned; why != "" {
		t.kill(ctx, c, run, t.probeGrace(c, why), fmt.Sprintf("Container %s failed %s probe, will be restarted", c.Name, why))
		return
	}
	if run.Hash != 0 && run.Hash != Hash(c) {
		t.kill(ctx, c, run, t.grace(), fmt.Sprintf("Container %s definition changed, will be restarted", c.Name))
	}
}

// probeGrace is the grace after a failed probe, which may have one of its own.
func (t *turn) probeGrace(c *corev1.Container, kind string) time.Duration {
	probe := c.LivenessProbe
	if kind == startupWord {
		probe = c.StartupProbe
	}
	if probe != nil && probe.TerminationGracePeriodSeconds != nil {
		return time.Duration(*probe.TerminationGracePeriodSeconds) * time.Second
	}
	return t.grace()
}
