package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/demand"
)

// refresh is how often a pod is synced when nothing has happened. The sources of its volumes may have changed.
const refresh = time.Minute

// syncTask is one sync of a pod: it decides from what is known, acts, and reports the status. A [describer] and a
// syncTask use [known], which uses neither of them, and only the syncTask changes anything.
type syncTask struct {
	known
	// worker is told before the sync waits for something that may take long. It may be nil.
	worker *detachable
	// after is the delay until the next sync; 0 means that none is needed.
	after time.Duration
}

// syncAfter requests another sync after the given time at the latest.
func (t *syncTask) syncAfter(after time.Duration) {
	after = max(after, time.Millisecond)
	if t.after == 0 || after < t.after {
		t.after = after
	}
}

func (t *syncTask) readRuntime(ctx context.Context) error {
	state, err := t.crew.Runtime.Pod(ctx, t.record.uid)
	if err != nil {
		return fmt.Errorf("read pod %s from the runtime: %w", t.key, err)
	}
	t.state = state
	return nil
}

func (t *syncTask) run(ctx context.Context) error {
	if err := t.readRuntime(ctx); err != nil {
		return err
	}
	t.recall()
	err := t.act(ctx)
	if ctx.Err() != nil {
		return err
	}
	if failed := t.readRuntime(context.WithoutCancel(ctx)); failed != nil {
		return failed
	}
	t.startProbes()
	t.reportStatus(ctx)
	return err
}

func (t *syncTask) act(ctx context.Context) error {
	switch {
	case t.pod.DeletionTimestamp != nil:
		return t.end(ctx, t.deletionGrace())
	case t.record.ended || demand.Finished(t.pod.Status.Phase):
		return t.end(ctx, t.grace())
	}
	t.checkDeadline()
	t.checkEviction()
	if !t.record.admitted && t.record.failed == nil {
		t.admit(ctx)
	}
	if t.record.failed != nil {
		grace := t.grace()
		if within := t.record.failed.Within; within > 0 {
			grace = min(grace, within)
		}
		return t.end(ctx, grace)
	}
	t.keepDefinition()
	return t.startInterruptibly(ctx)
}

// startInterruptibly starts containers. It is canceled when the pod must end, because pulls and mounts may take
// minutes.
func (t *syncTask) startInterruptibly(ctx context.Context) error {
	t.record.interruptible.Store(true)
	defer t.record.interruptible.Store(false)
	if t.crew.mustEnd(t.key, t.record) { // the pod's end came before interruptible was set; another sync is already scheduled
		return nil
	}
	return t.startContainers(ctx)
}

// keepDefinition keeps the definition of a pod that needs it to end properly.
func (t *syncTask) keepDefinition() {
	if t.crew.Furnish != nil {
		t.record.lastDefinition = t.pod
		return
	}
	for i := range t.pod.Spec.Containers {
		if l := t.pod.Spec.Containers[i].Lifecycle; l != nil && l.PreStop != nil {
			t.record.lastDefinition = t.pod
		}
	}
}

// admit asks the node to accept the pod. A pod that has a sandbox was admitted before.
func (t *syncTask) admit(ctx context.Context) {
	t.record.admitted = true
	if t.crew.Admit != nil && len(t.state.Sandboxes) == 0 {
		if !t.crew.admitOne(ctx, t) {
			return
		}
	}
	t.record.standing.Store(active)
}

// admitOne admits one pod at a time, because each decision must count the pods that were admitted before.
func (c *Crew) admitOne(ctx context.Context, t *syncTask) bool {
	c.admission.Lock()
	defer c.admission.Unlock()
	if t.record.failed = c.Admit(ctx, t.pod); t.record.failed != nil {
		t.event(corev1.EventTypeWarning, t.record.failed.Reason, "%s", t.record.failed.Message)
		return false
	}
	t.record.standing.Store(active)
	return true
}

// checkDeadline fails a pod that exceeds activeDeadlineSeconds.
func (t *syncTask) checkDeadline() {
	seconds := t.pod.Spec.ActiveDeadlineSeconds
	start := t.startTime()
	if seconds == nil || start == nil || t.record.failed != nil {
		return
	}
	left := start.Add(demand.Seconds(*seconds)).Sub(t.now)
	if left > 0 {
		t.syncAfter(left)
		return
	}
	t.record.failed = &Rejection{Reason: "DeadlineExceeded", Message: "Pod was active on the node longer than the specified deadline"}
	t.event(corev1.EventTypeNormal, "DeadlineExceeded", "%s", t.record.failed.Message)
}

// checkEviction fails a pod that was evicted.
func (t *syncTask) checkEviction() {
	if t.record.failed != nil {
		return
	}
	if t.record.failed = t.record.eviction.Load(); t.record.failed != nil {
		t.record.standing.CompareAndSwap(active, leaving)
		t.event(corev1.EventTypeWarning, t.record.failed.Reason, "%s", t.record.failed.Message)
	}
}

// startContainers starts the containers that should run and do not.
func (t *syncTask) startContainers(ctx context.Context) error {
	if t.complete() {
		return t.end(ctx, t.grace())
	}
	t.resize(ctx)
	if err := t.sandbox(ctx); err != nil || t.state.Sandbox() == nil {
		return err
	}
	ready, err := t.initialize(ctx)
	if err != nil || !ready {
		return err
	}
	var failed error
	for i := range t.pod.Spec.Containers { // a container that cannot start does not stop the others
		failed = errors.Join(failed, t.ensureRunning(ctx, &t.pod.Spec.Containers[i], false))
	}
	if t.crew.Furnish != nil {
		t.syncAfter(refresh)
	}
	return errors.Join(failed, t.startEphemeral(ctx))
}

// restarts reports whether a container that ended with exitCode is restarted.
func restarts(pod *corev1.Pod, c *corev1.Container, exitCode int32) bool {
	for _, rule := range c.RestartPolicyRules {
		if rule.ExitCodes != nil && matches(rule.ExitCodes, exitCode) {
			return rule.Action == corev1.ContainerRestartRuleActionRestart
		}
	}
	policy := corev1.ContainerRestartPolicy(pod.Spec.RestartPolicy)
	if c.RestartPolicy != nil {
		policy = *c.RestartPolicy
	}
	switch policy {
	case corev1.ContainerRestartPolicyNever:
		return false
	case corev1.ContainerRestartPolicyOnFailure:
		return exitCode != 0
	}
	return true
}

func matches(codes *corev1.ContainerRestartRuleOnExitCodes, code int32) bool {
	found := false
	for _, v := range codes.Values {
		found = found || v == code
	}
	return found == (codes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn)
}
