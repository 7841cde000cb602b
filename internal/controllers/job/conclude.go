package job

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/demand"
)

// conclude decides whether the Job is over, and what that means for its pods.
func (p *plan) conclude() {
	if p.job.DeletionTimestamp != nil {
		p.untrack = tracked(p.pods)
		return
	}
	p.decide()
	switch {
	case p.isTrue(batchv1.JobSuccessCriteriaMet):
		p.end(batchv1.JobSuccessCriteriaMet, batchv1.JobComplete)
	case p.isTrue(batchv1.JobFailureTarget):
		p.end(batchv1.JobFailureTarget, batchv1.JobFailed)
	default:
		if p.suspends {
			p.status.StartTime = nil // the deadline counts from when the Job is resumed
		}
		p.staff()
	}
}

func (p *plan) finishing() bool {
	return p.isTrue(batchv1.JobSuccessCriteriaMet) || p.isTrue(batchv1.JobFailureTarget)
}

// decide sets how the Job will end, as soon as that is clear.
func (p *plan) decide() {
	if p.finishing() {
		return
	}
	failures := int(p.status.Failed) + len(p.status.UncountedTerminatedPods.Failed) + p.waiting
	switch {
	case p.ruin != "":
		p.set(batchv1.JobFailureTarget, corev1.ConditionTrue, batchv1.JobReasonPodFailurePolicy, p.ruin)
	case p.job.Spec.BackoffLimit != nil && (failures > int(*p.job.Spec.BackoffLimit) || p.restartsExceed()):
		p.set(batchv1.JobFailureTarget, corev1.ConditionTrue, batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
	case p.deadlinePassed():
		p.set(batchv1.JobFailureTarget, corev1.ConditionTrue, batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	case perIndex(p.job) && p.job.Spec.MaxFailedIndexes != nil && p.failed.len() > int(*p.job.Spec.MaxFailedIndexes):
		p.set(batchv1.JobFailureTarget, corev1.ConditionTrue, batchv1.JobReasonMaxFailedIndexesExceeded, "Job has exceeded the specified maximal number of failed indexes")
	case p.failed.len() > 0 && p.failed.len()+p.completed.len() >= completions(p.job):
		p.set(batchv1.JobFailureTarget, corev1.ConditionTrue, batchv1.JobReasonFailedIndexes, "Job has failed indexes")
	default:
		p.decideSuccess()
	}
}

func (p *plan) decideSuccess() {
	if rule, ok := succeededBy(p.job, p.completed); ok {
		p.set(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, batchv1.JobReasonSuccessPolicy, fmt.Sprintf("Matched rules at index %d", rule))
		return
	}
	successes := int(p.status.Succeeded) + len(p.status.UncountedTerminatedPods.Succeeded)
	enough := successes >= completions(p.job)
	if p.job.Spec.Completions == nil {
		// Without completions one success is sufficient, and the other pods are left to end.
		enough = successes > 0 && len(p.active) == 0
	}
	if enough && !suspended(p.job) {
		p.set(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods")
	}
}

// restartsExceed reports whether containers that are restarted in place have failed too often.
func (p *plan) restartsExceed() bool {
	if p.job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	var restarts int64
	for _, pod := range p.active {
		if pod.Phase == corev1.PodRunning || pod.Phase == corev1.PodPending {
			restarts += int64(pod.AllRestarts)
		}
	}
	return restarts > 0 && restarts >= int64(*p.job.Spec.BackoffLimit)
}

func (p *plan) deadlinePassed() bool {
	deadline := p.job.Spec.ActiveDeadlineSeconds
	if deadline == nil || suspended(p.job) {
		return false
	}
	left := p.status.StartTime.Add(demand.Seconds(*deadline)).Sub(p.now)
	if left > 0 {
		p.due(left)
	}
	return left <= 0
}

// end stops the pods of a Job that is over, and then sets the final condition.
func (p *plan) end(interim, final batchv1.JobConditionType) {
	for _, pod := range slices.Concat(p.active, p.terminating) {
		if isTracked(pod) && !p.counted[pod.UID] && final == batchv1.JobFailed && rule(p.job, pod).counts && p.room() > 0 {
			p.countAs(pod, &p.status.UncountedTerminatedPods.Failed)
		}
	}
	p.remove = p.active
	for _, pod := range p.terminating {
		if isTracked(pod) && !slices.Contains(p.untrack, pod) {
			p.untrack = append(p.untrack, pod)
		}
	}
	uncounted := p.status.UncountedTerminatedPods
	if len(p.active)+len(p.terminating)+len(uncounted.Failed)+len(uncounted.Succeeded) > 0 || slices.ContainsFunc(p.pods, isTracked) {
		return
	}
	reached := p.condition(interim)
	p.set(final, corev1.ConditionTrue, reached.Reason, reached.Message)
	if p.status.StartTime == nil { // it was suspended when its last pods ended
		p.status.StartTime = &metav1.Time{Time: p.now}
	}
	if final == batchv1.JobComplete {
		p.status.CompletionTime = &metav1.Time{Time: p.now}
		p.note(corev1.EventTypeNormal, "Completed", "Job completed")
		return
	}
	p.note(corev1.EventTypeWarning, reached.Reason, reached.Message)
}

func (p *plan) due(in time.Duration) {
	if p.wait == 0 || in < p.wait {
		p.wait = in
	}
}

func (p *plan) note(level, reason, message string) {
	p.notes = append(p.notes, note{level, reason, message})
}

func (p *plan) condition(kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range p.status.Conditions {
		if p.status.Conditions[i].Type == kind {
			return &p.status.Conditions[i]
		}
	}
	return nil
}

func (p *plan) isTrue(kind batchv1.JobConditionType) bool {
	c := p.condition(kind)
	return c != nil && c.Status == corev1.ConditionTrue
}

// set reports whether it has changed anything.
func (p *plan) set(kind batchv1.JobConditionType, state corev1.ConditionStatus, reason, message string) bool {
	c := p.condition(kind)
	if c != nil && c.Status == state {
		return false
	}
	now := metav1.NewTime(p.now)
	fresh := batchv1.JobCondition{Type: kind, Status: state, Reason: reason, Message: message, LastProbeTime: now, LastTransitionTime: now}
	if c != nil {
		*c = fresh
	} else {
		p.status.Conditions = append(p.status.Conditions, fresh)
	}
	return true
}
