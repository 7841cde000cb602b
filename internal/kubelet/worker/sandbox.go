package worker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// sandbox ensures that the pod has a ready sandbox. It makes none, without an error, while containers of an earlier
// sandbox are still ending.
func (t *syncTask) sandbox(ctx context.Context) error {
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
			if ctx.Err() == nil {
				t.event(corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: %v", err)
			}
			return fmt.Errorf("furnish the sandbox of pod %s: %w", t.key, err)
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
	if err := t.readRuntime(ctx); err != nil || len(t.state.Sandboxes) <= kept {
		return err
	}
	return t.tidy(ctx) // no container refers to failed sandboxes, so they would pile up
}

// NotPrepared is an error of [Furnisher.Prepare] with its own event reason.
type NotPrepared struct {
	Reason string
	Err    error
}

func (e *NotPrepared) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *NotPrepared) Unwrap() error { return e.Err }

// prepare makes volumes and devices ready. Those that are not available yet are tried again.
func (t *syncTask) prepare(ctx context.Context) error {
	if t.crew.Furnish == nil {
		return nil
	}
	if !t.record.prepared {
		t.worker.detach()
	}
	err := t.crew.Furnish.Prepare(ctx, t.pod)
	if err == nil {
		t.record.prepared = true
		return nil
	}
	if ctx.Err() != nil {
		return err
	}
	if t.record.prepared { // the volumes were prepared before: running containers keep what they have
		t.syncAfter(10 * time.Second)
		return nil
	}
	t.tellNotPrepared(err)
	return fmt.Errorf("prepare what pod %s needs: %w", t.key, err)
}

func (t *syncTask) tellNotPrepared(err error) {
	reason := "FailedMount"
	if other, ok := errors.AsType[*NotPrepared](err); ok {
		reason = other.Reason
	}
	t.event(corev1.EventTypeWarning, reason, "%v", err)
}

// LogDirectory returns the directory of a pod's logs below root.
func LogDirectory(root string, pod *corev1.Pod) string {
	return filepath.Join(root, fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID))
}
