package job

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

// holdTime is how long after a change of its pods Kubernetes syncs a Job. We wait only where it makes a difference.
const holdTime = time.Second

// hold returns for how long a sync of a Job is held back. A Job whose spec has changed is not held back.
//
// It is if a pod is being deleted that has not ended: it would be counted as failed, and its kubelet may be about to
// say that it has succeeded. And if failures are about to end the Job while it has other pods: those would be deleted,
// and may have ended at the same time.
//
// The time runs from the first such pod that a sync finds: a Job whose pods are deleted one after the other is synced
// every second.
func (c *controller) hold(key loop.Key, job *batchv1.Job, pods []*podview.Pod) time.Duration {
	m := c.recall(key)
	if m.generation != 0 && m.generation != job.Generation {
		return 0
	}
	mayYetSucceed := func(pod *podview.Pod) bool { return isTracked(pod) && pod.Terminating() && hasFailed(job, pod) }
	if !slices.ContainsFunc(pods, mayYetSucceed) && !endsBesideOthers(job, pods, m.pause, c.now()) {
		return 0
	}
	if m.held.IsZero() {
		m.held = c.now()
		c.remember(key, m)
	}
	return m.held.Add(holdTime).Sub(c.now())
}

// endsBesideOthers reports whether failures of pods end a Job that has active ones.
func endsBesideOthers(job *batchv1.Job, pods []*podview.Pod, before pause, now time.Time) bool {
	failed := slices.ContainsFunc(pods, func(pod *podview.Pod) bool { return isTracked(pod) && hasFailed(job, pod) })
	if !failed || !slices.ContainsFunc(pods, (*podview.Pod).Active) {
		return false
	}
	if (&plan{status: job.Status}).finishing() {
		return false // it was decided before
	}
	p := assess(job, pods, before, now)
	end := p.condition(batchv1.JobFailureTarget)
	return end != nil && end.Status == corev1.ConditionTrue && end.Reason != batchv1.JobReasonDeadlineExceeded
}
