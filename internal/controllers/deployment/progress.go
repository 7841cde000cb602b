package deployment

import (
	"math"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// hasDeadline reports whether progressDeadlineSeconds applies.
func (r *rollout) hasDeadline() bool {
	return r.d.Spec.ProgressDeadlineSeconds != nil && *r.d.Spec.ProgressDeadlineSeconds != math.MaxInt32
}

// finishedBefore reports whether this rollout was complete before. From then on changes of pods do not affect the
// progress.
func (r *rollout) finishedBefore(s *appsv1.DeploymentStatus) bool {
	c := findCondition(&r.d.Status, appsv1.DeploymentProgressing)
	return s.Replicas == s.UpdatedReplicas && c != nil && c.Reason == reasonSetAvailable
}

// progress sets the Progressing condition: complete, progressing, or timed out.
func (r *rollout) progress(s *appsv1.DeploymentStatus) {
	switch {
	case complete(r.d, s):
		setCondition(s, r.condition(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonSetAvailable,
			r.subject()+" has successfully progressed."))
	case r.moved(s):
		c := r.condition(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonSetUpdated, r.subject()+" is progressing.")
		// The update time must change even if nothing else does, because the deadline counts from it.
		if old := findCondition(s, c.Type); old != nil {
			if old.Status == corev1.ConditionTrue {
				c.LastTransitionTime = old.LastTransitionTime
			}
			removeCondition(s, c.Type)
		}
		setCondition(s, c)
	case r.timedOut(s):
		setCondition(s, r.condition(appsv1.DeploymentProgressing, corev1.ConditionFalse, reasonTimedOut,
			r.subject()+" has timed out progressing."))
	}
}

// moved reports whether the rollout has progressed since the last status.
func (r *rollout) moved(s *appsv1.DeploymentStatus) bool {
	was := &r.d.Status
	return s.UpdatedReplicas > was.UpdatedReplicas ||
		s.Replicas-s.UpdatedReplicas < was.Replicas-was.UpdatedReplicas ||
		s.ReadyReplicas > was.ReadyReplicas ||
		s.AvailableReplicas > was.AvailableReplicas
}

func (r *rollout) timedOut(s *appsv1.DeploymentStatus) bool {
	c := findCondition(s, appsv1.DeploymentProgressing)
	if c == nil || c.Reason == reasonSetAvailable {
		return false
	}
	return c.Reason == reasonTimedOut || later(c.LastUpdateTime, *r.d.Spec.ProgressDeadlineSeconds).Before(r.now)
}

// check returns when the deadline must be checked again; 0 if it cannot pass.
func (r *rollout) check(s *appsv1.DeploymentStatus) time.Duration {
	c := findCondition(s, appsv1.DeploymentProgressing)
	if c == nil || !r.hasDeadline() || c.Reason == reasonTimedOut || c.Reason == reasonPaused || complete(r.d, s) {
		return 0
	}
	// One second after the deadline.
	return max(0, later(c.LastUpdateTime, *r.d.Spec.ProgressDeadlineSeconds).Sub(r.now)) + time.Second
}

// pauseNoted sets the Progressing condition after a pause or resume, so that a pause does not count towards the
// deadline.
func (r *rollout) pauseNoted(s *appsv1.DeploymentStatus) bool {
	if !r.hasDeadline() {
		return false
	}
	c := findCondition(s, appsv1.DeploymentProgressing)
	if c != nil && c.Reason == reasonTimedOut {
		return false
	}
	noted := c != nil && c.Reason == reasonPaused
	switch {
	case r.d.Spec.Paused && !noted:
		setCondition(s, r.condition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, reasonPaused, "Deployment is paused"))
	case !r.d.Spec.Paused && noted:
		setCondition(s, r.condition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, reasonResumed, "Deployment is resumed"))
	default:
		return false
	}
	return true
}
