package job

import (
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/controllers/podview"
)

// plan is the result of one sync: first the status is written, then the rest is done.
type plan struct {
	job  *batchv1.Job
	pods []*podview.Pod
	now  time.Time

	status  batchv1.JobStatus
	untrack []*podview.Pod // counted pods, whose finalizer may be removed
	remove  []*podview.Pod // unwanted pods, whose finalizer is removed before they are deleted
	create  []int          // one for each new pod: its index, or noIndex
	wait    time.Duration  // until the next sync; 0 means none
	pause   pause          // the back-off from now on
	notes   []note         // events

	suspends            bool // the Job is suspended from now on
	active, terminating []*podview.Pod
	completed, failed   indexes
	counted             map[types.UID]bool               // UIDs in the status that are not yet in its numbers
	waiting             int                              // failed pods that are counted once they have successors
	ruin                string                           // why the pod failure policy fails the Job
	judged              []batchv1.PodFailurePolicyAction // what the pod failure policy does about pods, for metrics
}

type note struct{ level, reason, message string }

const (
	noIndex = -1
	// atOnce limits the UIDs in the status, and the pods made in one sync.
	atOnce = 500
)

// assess makes a plan for a Job and its pods.
func assess(job *batchv1.Job, pods []*podview.Pod, before pause, now time.Time) *plan {
	p := &plan{job: job, pods: pods, now: now, pause: before, status: *job.Status.DeepCopy(), counted: map[types.UID]bool{}}
	if p.status.UncountedTerminatedPods == nil {
		p.status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	if indexed(job) {
		p.completed = parseIndexes(p.status.CompletedIndexes, completions(job))
	}
	if perIndex(job) && p.status.FailedIndexes != nil {
		p.failed = parseIndexes(*p.status.FailedIndexes, completions(job))
	}
	p.begin()
	p.takeIn()
	p.sort()
	p.count()
	p.conclude()
	return p
}

// begin handles the start, a suspension, and its end.
func (p *plan) begin() {
	switch {
	case suspended(p.job):
		if p.set(batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended") {
			p.suspends = true
			p.note(corev1.EventTypeNormal, "Suspended", "Job suspended")
		}
		return
	case p.condition(batchv1.JobSuspended) != nil:
		if p.status.StartTime != nil && p.deadlinePassed() {
			return // of a suspended Job, somebody else has written when it began
		}
		if p.set(batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed") {
			p.note(corev1.EventTypeNormal, "Resumed", "Job resumed")
			p.status.StartTime = &metav1.Time{Time: p.now}
		}
	}
	if p.status.StartTime == nil {
		p.status.StartTime = &metav1.Time{Time: p.now}
	}
}

// takeIn turns UIDs in the status into numbers, once their pods have lost the finalizer.
func (p *plan) takeIn() {
	tracked := map[types.UID]bool{}
	for _, pod := range p.pods {
		tracked[pod.UID] = isTracked(pod)
	}
	uncounted := p.status.UncountedTerminatedPods
	settle := func(uids *[]types.UID, number *int32) {
		*uids = slices.DeleteFunc(*uids, func(uid types.UID) bool {
			p.counted[uid] = true
			if tracked[uid] {
				return false
			}
			*number++
			return true
		})
		if len(*uids) == 0 {
			*uids = nil
		}
	}
	settle(&uncounted.Succeeded, &p.status.Succeeded)
	settle(&uncounted.Failed, &p.status.Failed)
}

// sort finds the active and the terminating pods.
func (p *plan) sort() {
	var ready, terminating int32
	for _, pod := range p.pods {
		switch {
		case pod.Active():
			p.active = append(p.active, pod)
			if pod.Ready {
				ready++
			}
		case pod.Terminating():
			p.terminating = append(p.terminating, pod)
			terminating++
		}
	}
	p.status.Active, p.status.Ready, p.status.Terminating = int32(len(p.active)), &ready, &terminating
}

// count adds the finished pods to the status.
func (p *plan) count() {
	var ended []*podview.Pod
	for _, pod := range p.pods {
		if isTracked(pod) && (pod.Phase == corev1.PodSucceeded || hasFailed(p.job, pod)) {
			ended = append(ended, pod)
		}
	}
	slices.SortStableFunc(ended, func(a, b *podview.Pod) int { return endOf(a, p.now).Compare(endOf(b, p.now)) })
	for _, pod := range ended {
		switch {
		case p.counted[pod.UID]:
			p.untrack = append(p.untrack, pod)
		case p.room() == 0: // the next sync continues when these are numbers
		case pod.Phase == corev1.PodSucceeded:
			p.succeed(pod)
		default:
			p.fail(pod)
		}
	}
	if indexed(p.job) {
		p.status.CompletedIndexes = p.completed.String()
		p.status.Succeeded = int32(p.completed.len())
	}
	if perIndex(p.job) {
		text := p.failed.String()
		p.status.FailedIndexes = &text
	}
}

func (p *plan) room() int {
	return max(0, atOnce-len(p.status.UncountedTerminatedPods.Succeeded)-len(p.status.UncountedTerminatedPods.Failed))
}

func (p *plan) succeed(pod *podview.Pod) {
	p.untrack = append(p.untrack, pod)
	p.pause = pause{}
	if !indexed(p.job) {
		p.countAs(pod, &p.status.UncountedTerminatedPods.Succeeded)
		return
	}
	// Indexes are a set: adding one twice changes nothing.
	if i := indexOf(pod); i != noIndex && i < completions(p.job) {
		p.completed = p.completed.with(i)
	}
}

func (p *plan) fail(pod *podview.Pod) {
	r := rule(p.job, pod)
	if r.failJob != "" && p.ruin == "" {
		p.ruin = r.failJob
	}
	if r.action != "" {
		p.judged = append(p.judged, r.action)
	}
	i := indexOf(pod)
	if indexed(p.job) && (i == noIndex || i >= completions(p.job)) {
		p.untrack = append(p.untrack, pod)
		return
	}
	if perIndex(p.job) && !p.completed.has(i) {
		if r.counts && (r.failIndex || annotated(pod, failureKey) >= int(*p.job.Spec.BackoffLimitPerIndex)) {
			p.failed = p.failed.with(i)
		}
		// The last pod of an index tells its successor how often the index has failed.
		if !p.failed.has(i) && !p.succeeded(pod) && p.ruin == "" && !p.finishing() {
			if r.counts {
				p.waiting++
			}
			return
		}
	}
	p.untrack = append(p.untrack, pod)
	p.pause = p.pause.after(endOf(pod, p.now)) // whether the failure counts or not, repeated failures must slow down
	if r.counts {
		p.countAs(pod, &p.status.UncountedTerminatedPods.Failed)
	}
}

// succeeded reports whether there is a later pod of the same index.
func (p *plan) succeeded(pod *podview.Pod) bool {
	return slices.ContainsFunc(p.pods, func(other *podview.Pod) bool {
		return indexOf(other) == indexOf(pod) && later(other, pod)
	})
}

// later reports whether a was made as b's successor. Times have only seconds, so the number of failures is compared
// too.
func later(a, b *podview.Pod) bool {
	x, y := annotated(a, failureKey)+annotated(a, ignoredKey), annotated(b, failureKey)+annotated(b, ignoredKey)
	if x != y {
		return x > y
	}
	return a.CreationTimestamp.After(b.CreationTimestamp.Time)
}

func (p *plan) countAs(pod *podview.Pod, uids *[]types.UID) {
	*uids = append(*uids, pod.UID)
	p.counted[pod.UID] = true
}

func isTracked(pod *podview.Pod) bool { return slices.Contains(pod.Finalizers, finalizer) }

// hasFailed reports whether the pod counts as failed. A pod that is being deleted does so at once, unless the Job waits
// for its end.
func hasFailed(job *batchv1.Job, pod *podview.Pod) bool {
	return pod.Phase == corev1.PodFailed || pod.Terminating() && !awaitsEnd(job)
}

func indexOf(pod *podview.Pod) int {
	i, err := strconv.Atoi(pod.Annotations[indexKey])
	if err != nil || i < 0 {
		return noIndex
	}
	return i
}

// annotated returns a number in an annotation, which users can change: one that cannot be right counts as zero.
func annotated(pod *podview.Pod, key string) int {
	n, err := strconv.ParseInt(pod.Annotations[key], 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return int(n)
}

// endOf returns when the pod's last container ended, as well as it is known.
func endOf(pod *podview.Pod, now time.Time) time.Time {
	var end time.Time
	for _, exit := range pod.Exits {
		if exit.Finished.After(end) {
			end = exit.Finished.Time
		}
	}
	switch {
	case !end.IsZero():
		return end
	case pod.Finished() && !pod.ReadyChanged.IsZero():
		return pod.ReadyChanged.Time
	case pod.DeletionTimestamp != nil:
		return pod.DeletionTimestamp.Time
	}
	return now
}
