package worker

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/kubelet/container"
)

// ensureRunning starts a container that should run and does not.
func (t *syncTask) ensureRunning(ctx context.Context, c *corev1.Container, initial bool) error {
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
	case run.State == container.Created && t.record.verdictOf(run.ID).begun:
		return nil
	case run.State == container.Created: // the kubelet that created it stopped before it could start it
		if err := t.crew.Runtime.Remove(ctx, run.ID); err != nil {
			return err
		}
		return t.start(ctx, c)
	case run.State == container.Unknown:
		t.kill(ctx, c, run, t.grace(), "container is in unknown state")
		return nil
	}
	if !restarts(t.pod, c, run.ExitCode) || t.record.isStopping(run.ID) || !t.mayRestart(c, run) {
		return nil
	}
	return t.start(ctx, c)
}

// mayRestart returns false while a crashed container waits for its back-off. Another image has not crashed yet.
func (t *syncTask) mayRestart(c *corev1.Container, run *container.Container) bool {
	if run.Hash != 0 && run.Hash != Hash(c) {
		delete(t.record.crashes, c.Name)
		return true
	}
	series := t.record.crashes[c.Name]
	ended := t.record.endOf(run, t.now)
	if !series.since.Equal(ended) {
		left := series.until(ended).Sub(t.now)
		if series.delay > 0 && left > 0 && ended.Sub(series.since) <= 2*t.crew.Backoff.Max {
			where := fmt.Sprintf("restarting failed container=%s pod=%s_%s(%s)", c.Name, t.pod.Name, t.pod.Namespace, t.pod.UID)
			t.record.wait(c.Name, "CrashLoopBackOff", fmt.Sprintf("back-off %s %s", series.delay, where))
			t.eventOf(c, corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container %s in pod %s_%s(%s)", c.Name, t.pod.Name, t.pod.Namespace, t.pod.UID)
			t.syncAfter(left)
			return false
		}
		if t.record.crashes == nil {
			t.record.crashes = map[string]backoff{}
		}
		t.record.crashes[c.Name] = series.next(t.crew.Backoff, ended)
	}
	return true
}

// replaceIfNeeded stops a container that failed a probe or whose definition has changed.
func (t *syncTask) replaceIfNeeded(ctx context.Context, c *corev1.Container, run *container.Container) {
	if t.record.isStopping(run.ID) {
		return
	}
	if why := t.record.verdictOf(run.ID).restartReason; why != "" {
		t.kill(ctx, c, run, t.probeGrace(c, why), fmt.Sprintf("Container %s failed %s probe, will be restarted", c.Name, why))
		return
	}
	if run.Hash != 0 && run.Hash != Hash(c) {
		t.kill(ctx, c, run, t.grace(), fmt.Sprintf("Container %s definition changed, will be restarted", c.Name))
	}
}

// probeGrace returns the grace period after a failed probe, which the probe may override.
func (k *known) probeGrace(c *corev1.Container, kind string) time.Duration {
	probe := c.LivenessProbe
	if kind == startupWord {
		probe = c.StartupProbe
	}
	if probe != nil && probe.TerminationGracePeriodSeconds != nil {
		return demand.Seconds(*probe.TerminationGracePeriodSeconds)
	}
	return k.grace()
}
