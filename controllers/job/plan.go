package job

import (
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/controllers/podview"
)

// A plan is what one pass wants: first the status, then, when that is written,
// the rest.
type plan struct {
	job  *batchv1.Job
	pods []*podview.Pod
	now  time.Time

	status  batchv1.JobStatus
	untrack []*podview.Pod // counted: the finalizer may go
	remove  []*podview.Pod // not wanted any more: the finalizer and the pod may go
	create  []int          // one for each new pod: its index, or noIndex
	wait    time.Duration  // until something is due; 0: never
	pause   pause          // between failures, from now on
	notes   []note         // events

	active, terminating []*podview.Pod
	completed, failed   indexes
	counted             map[types.UID]bool // in the status, not yet in its numbers
	ruin                string             // why the failure policy fails the job
}

type note struct{ level, reason, message string }

const (
	noIndex = -1
	// atOnce bounds the uids in the status, and the pods made in one pass.
	atOnce = 500
)

// assess works out a plan from a job and its pods.
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

// begin notes the start, a suspension, and its end.
func (p *plan) begin() {
	switch {
	case suspended(p.job):
		if p.set(batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended") {
			p.note(corev1.EventTypeNormal, "Suspended", "Job suspended")
		}
		return
	case p.condition(batchv1.JobSuspended) != nil:
		if p.set(batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed") {
			p.note(corev1.EventTypeNormal, "Resumed", "Job resumed")
			p.status.StartTime = &metav1.Time{Time: p.now}
		}
	}
	if p.status.StartTime == nil {
		p.status.StartTime = &metav1.Time{Time: p.now}
	}
}

// takeIn turns uids in the status into numbers, once their pods carry the
// finalizer no more.
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

// sort finds the pods that are at work and those that are leaving.
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

// count takes the pods that have ended into the status.
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
		case p.room() == 0: // the next pass, when these have become numbers
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
	// An index is a number of its own: adding it twice changes nothing.
	if i := indexOf(pod); i != noIndex && i < completions(p.job) {
		p.completed = p.completed.with([]int{i})
	}
}

func (p *plan) fail(pod *podview.Pod) {
	r := rule(p.job, pod)
	if r.failJob != "" && p.ruin == "" {
		p.ruin = r.failJob
	}
	i := indexOf(pod)
	if indexed(p.job) && (i == noIndex || i >= completions(p.job)) {
		p.untrack = append(p.untrack, pod)
		return
	}
	if perIndex(p.job) && !p.completed.has(i) {
		if r.counts && (r.failIndex || annotated(pod, failureKey) >= int(*p.job.Spec.BackoffLimitPerIndex)) {
			p.failed = p.failed.with([]int{i})
		}
		// The last pod of an index tells its successor how often it has failed.
		if !p.failed.has(i) && !p.succeeded(pod) && p.ruin == "" && !p.finishing() {
			return
		}
	}
	p.untrack = append(p.untrack, pod)
	p.pause = p.pause.after(endOf(pod, p.now)) // whether the failure counts or not: what goes on failing must slow down
	if r.counts {
		p.countAs(pod, &p.status.UncountedTerminatedPods.Failed)
	}
}

// succeeded says that there is a later pod of the same index.
func (p *plan) succeeded(pod *podview.Pod) bool {
	return slices.ContainsFunc(p.pods, func(other *podview.Pod) bool {
		return indexOf(other) == indexOf(pod) && later(other, pod)
	})
}

// later says that a was made as b's successor. Times have whole seconds only;
// the number of failures tells more.
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

// hasFailed says that the pod counts as failed. One that is being deleted does so
// at once, unless its end is to be awaited.
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

func annotated(pod *podview.Pod, key string) int {
	n, _ := strconv.Atoi(pod.Annotations[key])
	return n
}

// endOf is when the pod's last container ended, as well as can be known.
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
