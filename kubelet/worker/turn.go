package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/kubelet/container"
)

// refresh is how often a pod is looked at although nothing happened: what its volumes are made from may have changed.
const refresh = time.Minute

// turn is one look at a pod, and what follows from it.
type turn struct {
	crew  *Crew
	key   Key
	life  *life
	pod   *corev1.Pod
	state container.Pod
	now   time.Time
	// after is when to look again at the latest.
	after time.Duration
}

// again asks for another look.
func (t *turn) again(after time.Duration) {
	after = max(after, time.Millisecond)
	if t.after == 0 || after < t.after {
		t.after = after
	}
}

func (t *turn) look(ctx context.Context) error {
	state, err := t.crew.Runtime.Pod(ctx, t.life.uid)
	if err != nil {
		return fmt.Errorf("look at pod %s: %w", t.key, err)
	}
	t.state = state
	return nil
}

func (t *turn) run(ctx context.Context) error {
	if err := t.look(ctx); err != nil {
		return err
	}
	err := t.act(ctx)
	if ctx.Err() != nil {
		return err
	}
	if failed := t.look(context.WithoutCancel(ctx)); failed != nil {
		return failed
	}
	t.watchOver()
	t.tell()
	return err
}

func (t *turn) act(ctx context.Context) error {
	switch {
	case t.pod.DeletionTimestamp != nil:
		return t.end(ctx, t.deletionGrace())
	case t.life.ended || finished(t.pod.Status.Phase):
		return t.end(ctx, 0)
	}
	t.checkDeadline()
	t.checkSentence()
	if !t.life.admitted && t.life.failed == nil {
		t.admit()
	}
	if t.life.failed != nil {
		if t.life.failed.AtOnce {
			return t.end(ctx, time.Second)
		}
		return t.end(ctx, t.grace())
	}
	t.keepDefinition()
	return t.attend(ctx)
}

// attend lets the pod live until somebody says that it is to end: whatever is done for it then may take minutes, and is
// not worth waiting for.
func (t *turn) attend(ctx context.Context) error {
	t.life.patient.Store(true)
	defer t.life.patient.Store(false)
	if t.crew.over(t.key, t.life) { // said before anybody could interrupt; another look has been asked for
		return nil
	}
	return t.live(ctx)
}

// keepDefinition keeps a pod whose containers must be told before they end.
func (t *turn) keepDefinition() {
	if t.crew.Furnish != nil {
		t.life.lastDefinition = t.pod
		return
	}
	for i := range t.pod.Spec.Containers {
		if l := t.pod.Spec.Containers[i].Lifecycle; l != nil && l.PreStop != nil {
			t.life.lastDefinition = t.pod
		}
	}
}

func finished(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// admit asks the node. What runs already was admitted before.
func (t *turn) admit() {
	t.life.admitted = true
	if t.crew.Admit != nil && len(t.state.Sandboxes) == 0 {
		if !t.crew.admitOne(t) {
			return
		}
	}
	t.life.inside.Store(true)
}

// admitOne asks the node for one pod at a time: each must see those that were let in before it.
func (c *Crew) admitOne(t *turn) bool {
	c.admission.Lock()
	defer c.admission.Unlock()
	if t.life.failed = c.Admit(t.pod); t.life.failed != nil {
		t.event(corev1.EventTypeWarning, t.life.failed.Reason, "%s", t.life.failed.Message)
		return false
	}
	t.life.inside.Store(true)
	return true
}

// checkDeadline fails a pod that has been active for too long.
func (t *turn) checkDeadline() {
	seconds := t.pod.Spec.ActiveDeadlineSeconds
	start := t.startTime()
	if seconds == nil || start == nil || t.life.failed != nil {
		return
	}
	left := start.Add(time.Duration(*seconds) * time.Second).Sub(t.now)
	if left > 0 {
		t.again(left)
		return
	}
	t.life.failed = &Rejection{Reason: "DeadlineExceeded", Message: "Pod was active on the node longer than the specified deadline"}
	t.event(corev1.EventTypeNormal, "DeadlineExceeded", "%s", t.life.failed.Message)
}

// checkSentence fails a pod that was evicted.
func (t *turn) checkSentence() {
	if t.life.failed != nil {
		return
	}
	if t.life.failed = t.life.sentence.Load(); t.life.failed != nil {
		t.event(corev1.EventTypeWarning, t.life.failed.Reason, "%s", t.life.failed.Message)
	}
}

func (t *turn) grace() time.Duration {
	if s := t.pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	for i := range t.state.Containers { // of a pod whose definition is gone
		if g := t.state.Containers[i].Grace; g > 0 {
			return g
		}
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

func (t *turn) deletionGrace() time.Duration {
	if s := t.pod.DeletionGracePeriodSeconds; s != nil {
		return time.Duration(max(*s, 1)) * time.Second
	}
	return t.grace()
}

// live starts what is to run and does not.
func (t *turn) live(ctx context.Context) error {
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
	for i := range t.pod.Spec.Containers { // one that cannot start does not keep the others from it
		failed = errors.Join(failed, t.keep(ctx, &t.pod.Spec.Containers[i], false))
	}
	if t.crew.Furnish != nil {
		t.again(refresh)
	}
	return errors.Join(failed, t.startEphemeral(ctx))
}

// complete reports whether all containers have ended for good.
func (t *turn) complete() bool {
	if t.initFailed() {
		return true
	}
	for i := range t.pod.Spec.Containers {
		c := &t.pod.Spec.Containers[i]
		run := t.state.Container(c.Name)
		if run == nil || run.State != container.Exited || restarts(t.pod, c, run.ExitCode) {
			return false
		}
	}
	return true
}

// restarts reports whether a container that ended is started again.
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
