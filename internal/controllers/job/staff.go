package job

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/controllers/podview"
)

// staff makes missing pods and removes surplus ones.
func (p *plan) staff() {
	wanted := p.wanted()
	if indexed(p.job) {
		p.remove = p.duplicates()
	}
	if surplus := len(p.active) - wanted; surplus > 0 {
		rest := slices.DeleteFunc(leastLoss(p.active), func(pod *podview.Pod) bool { return slices.Contains(p.remove, pod) })
		p.remove = append(p.remove, rest[:max(0, surplus-len(p.remove))]...)
		return
	}
	missing := wanted - len(p.active) + len(p.remove)
	if awaitsEnd(p.job) {
		missing -= len(p.terminating)
	}
	missing = min(missing, atOnce)
	if missing <= 0 {
		return
	}
	if !perIndex(p.job) {
		if left := p.pause.left(p.now); left > 0 {
			p.due(left)
			return
		}
	}
	if !indexed(p.job) {
		p.create = slices.Repeat([]int{noIndex}, missing)
		return
	}
	p.create = p.free(missing)
}

// wanted returns the number of pods that should be active.
func (p *plan) wanted() int {
	if suspended(p.job) {
		return 0
	}
	successes := int(p.status.Succeeded) + len(p.status.UncountedTerminatedPods.Succeeded)
	if p.job.Spec.Completions == nil {
		if successes > 0 {
			return min(len(p.active), parallelism(p.job))
		}
		return parallelism(p.job)
	}
	return max(0, min(parallelism(p.job), completions(p.job)-successes-p.failed.len()))
}

// duplicates returns pods whose index has another active pod, is done, or does not exist.
func (p *plan) duplicates() []*podview.Pod {
	taken := map[int]bool{}
	var out []*podview.Pod
	ordered := leastLoss(p.active)
	slices.Reverse(ordered)
	for _, pod := range ordered {
		i := indexOf(pod)
		if i == noIndex || i >= completions(p.job) || taken[i] || p.completed.has(i) || p.failed.has(i) {
			out = append(out, pod)
		}
		taken[i] = true
	}
	return out
}

// free returns the lowest indexes that need a pod now.
func (p *plan) free(n int) []int {
	taken := map[int]bool{}
	for _, pod := range p.active {
		taken[indexOf(pod)] = true
	}
	if awaitsEnd(p.job) {
		for _, pod := range p.terminating {
			taken[indexOf(pod)] = true
		}
	}
	paused := map[int]time.Duration{}
	if perIndex(p.job) {
		for i, pod := range p.lastFailures() {
			failed := annotated(pod, failureKey) + annotated(pod, ignoredKey) + 1
			paused[i] = pause{failed, endOf(pod, p.now)}.left(p.now)
		}
	}
	var out []int
	for i := 0; i < completions(p.job) && len(out) < n; i++ {
		switch {
		case p.completed.has(i): // all at once: somebody may have written a span of two billion
			i = p.completed.lastOfSpan(i)
		case p.failed.has(i):
			i = p.failed.lastOfSpan(i)
		case taken[i]:
		case paused[i] > 0:
			p.due(paused[i])
		default:
			out = append(out, i)
		}
	}
	return out
}

// lastFailures returns the latest failed pods, by index.
func (p *plan) lastFailures() map[int]*podview.Pod {
	out := map[int]*podview.Pod{}
	for _, pod := range p.pods {
		i := indexOf(pod)
		if hasFailed(p.job, pod) && (out[i] == nil || later(pod, out[i])) {
			out[i] = pod
		}
	}
	return out
}

// leastLoss sorts the pods first that have progressed least.
func leastLoss(pods []*podview.Pod) []*podview.Pod {
	out := slices.Clone(pods)
	slices.SortStableFunc(out, func(a, b *podview.Pod) int {
		if d := stage(a) - stage(b); d != 0 {
			return d
		}
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	return out
}

func stage(pod *podview.Pod) int {
	n := 0
	if pod.Node != "" {
		n++
	}
	if pod.Phase == corev1.PodRunning {
		n++
	}
	if pod.Ready {
		n++
	}
	return n
}
