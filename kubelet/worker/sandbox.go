package worker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/kubelet/container"
)

// sandbox sees to it that the pod has a sandbox that is ready. Without one, and without an error, it waits for the
// containers of an earlier one to end.
func (t *turn) sandbox(ctx context.Context) error {
	if err := t.prepare(ctx); err != nil {
		return err
	}
	var attempt uint32
	if s := t.state.Sandbox(); s != nil {
		if s.Ready {
			return nil
		}
		if t.state.Runs() {
			t.stopAll(ctx, t.grace())
			t.state.Sandboxes = nil
			return nil
		}
		attempt = s.Attempt + 1
		t.event(corev1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
		if err := t.crew.Runtime.StopSandbox(ctx, s.ID); err != nil {
			return err
		}
	}
	spec := &container.SandboxSpec{Pod: t.pod, Attempt: attempt, LogDirectory: t.logDirectory()}
	if t.crew.Furnish != nil {
		if err := t.crew.Furnish.Sandbox(ctx, spec); err != nil {
			return err
		}
	}
	if _, err := t.crew.Runtime.RunSandbox(ctx, spec); err != nil {
		if ctx.Err() != nil {
			return err
		}
		if noNetwork, ok := errors.AsType[*container.NetworkNotReady](err); ok {
			t.event(corev1.EventTypeWarning, "NetworkNotReady", "%v", noNetwork)
		} else {
			t.event(corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: %v", err)
		}
		return fmt.Errorf("make the sandbox of pod %s: %w", t.key, err)
	}
	if err := t.look(ctx); err != nil || len(t.state.Sandboxes) <= kept {
		return err
	}
	return t.tidy(ctx) // of many that failed no container tells
}

// prepare makes volumes ready. Those that wait for something are tried again.
func (t *turn) prepare(ctx context.Context) error {
	if t.crew.Furnish == nil {
		return nil
	}
	err := t.crew.Furnish.Prepare(ctx, t.pod)
	if err == nil {
		t.life.prepared = true
		return nil
	}
	if ctx.Err() != nil {
		return err
	}
	if t.life.prepared { // it was good enough once: what runs goes on with what it has
		t.again(10 * time.Second)
		return nil
	}
	t.event(corev1.EventTypeWarning, "FailedMount", "%v", err)
	return fmt.Errorf("prepare the volumes of pod %s: %w", t.key, err)
}

func (t *turn) logDirectory() string {
	if t.crew.Logs == "" {
		return ""
	}
	return LogDirectory(t.crew.Logs, t.pod)
}

// LogDirectory is the folder of a pod's logs below root.
func LogDirectory(root string, pod *corev1.Pod) string {
	return filepath.Join(root, fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID))
}
