package worker

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/kubelet/container"
)

// initialized reports whether an ordinary container was started in the current sandbox. From then on init containers
// are not run again.
func (k *known) initialized() bool {
	s := k.state.Sandbox()
	if s == nil {
		return false
	}
	for i := range k.pod.Spec.Containers {
		if run := k.state.Container(k.pod.Spec.Containers[i].Name); run != nil && run.SandboxID == s.ID {
			return true
		}
	}
	return false
}

// initRun returns the newest run of an init container in the current sandbox.
func (k *known) initRun(name string) *container.Container {
	s, run := k.state.Sandbox(), k.state.Container(name)
	if s == nil || run == nil || run.SandboxID != s.ID {
		return nil
	}
	return run
}

// initFailed reports whether an init container has failed and will not be restarted.
func (k *known) initFailed() bool {
	if k.initialized() {
		return false
	}
	for i := range k.pod.Spec.InitContainers {
		c := &k.pod.Spec.InitContainers[i]
		run := k.initRun(c.Name)
		if run == nil {
			return false
		}
		if !demand.Sidecar(c) && run.State == container.Exited && run.ExitCode != 0 && !restarts(k.pod, c, run.ExitCode) {
			return true
		}
	}
	return false
}

// initialize runs the init containers one after the other and keeps sidecars running. It returns true once the ordinary
// containers may start.
func (t *syncTask) initialize(ctx context.Context) (bool, error) {
	done := t.initialized()
	for i := range t.pod.Spec.InitContainers {
		c := &t.pod.Spec.InitContainers[i]
		if !demand.Sidecar(c) && done {
			continue
		}
		if !demand.Sidecar(c) {
			if run := t.initRun(c.Name); run != nil && run.State == container.Exited && run.ExitCode == 0 {
				continue
			}
		}
		if err := t.ensureRunning(ctx, c, true); err != nil {
			return false, err
		}
		if !done && !t.passed(c) {
			return false, nil
		}
	}
	return true, nil
}

// passed reports whether the next init container may start.
func (k *known) passed(c *corev1.Container) bool {
	run := k.initRun(c.Name)
	if run == nil {
		return false
	}
	if demand.Sidecar(c) {
		return run.State == container.Running && k.started(c, run)
	}
	return run.State == container.Exited && run.ExitCode == 0
}

// started reports whether a running container has passed its startup probe.
func (k *known) started(c *corev1.Container, run *container.Container) bool {
	return c.StartupProbe == nil || k.record.verdictOf(run.ID).started
}
