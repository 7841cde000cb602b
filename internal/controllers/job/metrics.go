package job

import (
	batchv1 "k8s.io/api/batch/v1"

	"github.com/millrace/millrace/internal/controllers/podview"
)

// Action is what a sync does about pods.
type Action string

// The actions. If a sync does several things, the last of them in this list counts.
const (
	Reconciled  Action = "reconciling"  // nothing
	Counted     Action = "tracking"     // pods that have ended were counted
	PodsCreated Action = "pods_created" // pods were made
	PodsDeleted Action = "pods_deleted" // pods were deleted
)

// Why is why a pod is made.
type Why string

// The reasons. The last two say which pods a Job replaces: those that are being deleted or have failed, or only those
// that have failed.
const (
	New                    Why = "new"
	ForTerminatingOrFailed Why = "recreate_terminating_or_failed"
	ForFailed              Why = "recreate_failed"
)

func modeOf(job *batchv1.Job) batchv1.CompletionMode {
	if job.Spec.CompletionMode != nil {
		return *job.Spec.CompletionMode
	}
	return batchv1.NonIndexedCompletion
}

// action returns what a plan does about pods. A nil plan does nothing.
func (p *plan) action() Action {
	switch {
	case p == nil:
		return Reconciled
	case len(p.remove) > 0:
		return PodsDeleted
	case len(p.create) > 0:
		return PodsCreated
	case len(p.untrack) > 0:
		return Counted
	}
	return Reconciled
}

// why returns why the plan makes pods.
func (p *plan) why() Why {
	failed := int(p.status.Failed) + len(p.status.UncountedTerminatedPods.Failed)
	switch {
	case awaitsEnd(p.job) && failed > 0:
		return ForFailed
	case !awaitsEnd(p.job) && failed+len(p.terminating) > 0:
		return ForTerminatingOrFailed
	}
	return New
}

// measure counts what a written status says for the first time.
func (c *controller) measure(p *plan) {
	mode, before, after := modeOf(p.job), &p.job.Status, &p.status
	c.metrics.Pods(mode, int(after.Succeeded-before.Succeeded), int(after.Failed-before.Failed))
	for _, final := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed} {
		if p.isTrue(final) { // the status of a finished Job is not written again
			c.metrics.Finished(mode, final == batchv1.JobComplete, p.condition(final).Reason)
		}
	}
	for _, action := range p.judged {
		c.metrics.Judged(action)
	}
	if indexed(p.job) {
		succeeded := p.completed.len() - parseIndexes(before.CompletedIndexes, completions(p.job)).len()
		failed := p.failed.len()
		if before.FailedIndexes != nil {
			failed -= parseIndexes(*before.FailedIndexes, completions(p.job)).len()
		}
		c.metrics.Indexes(perIndex(p.job), succeeded, failed)
	}
}

// observeEnd counts pods that end with the finalizer, and those that lose it afterwards. One change may be both.
func (c *controller) observeEnd(before, after *podview.Pod) {
	had := before != nil && isTracked(before)
	was, is := had && before.Finished(), after != nil && after.Finished() && isTracked(after)
	switch {
	case was != is:
		c.metrics.Tracked(is)
	case had && !was && after != nil && after.Finished():
		c.metrics.Tracked(true)
		c.metrics.Tracked(false)
	}
}
