package worker

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// record is what the kubelet remembers of a pod between two syncs. It may be lost at any time: the runtime and the
// pod's status in the API have all that is needed, and docs/kubelet-restart.md says of each field how it comes back.
// Only the running syncTask of the key uses the fields above the atomic ones.
type record struct {
	uid types.UID
	// lastDefinition is kept while the pod's end may need it after the pod was deleted.
	lastDefinition *corev1.Pod
	// recalled is set once what an earlier kubelet has reported was taken over.
	recalled bool
	// admitted is set once the node was asked to accept the pod.
	admitted bool
	prepared bool
	// failed says why the kubelet itself has failed the pod.
	failed *Rejection
	// endBy is when the grace period ends. It is set when the pod begins to end.
	endBy time.Time
	// ended is set once nothing runs and nothing will be started.
	ended bool
	// endReported is set once the end of a pod that is being deleted was reported.
	endReported bool
	// status is the status that was reported last.
	status *corev1.PodStatus
	// reportedVersion is the resource version of the pod when status was reported.
	reportedVersion string
	// sizing is the resize that is under way, or nil.
	sizing *sizing
	// waits has the waiting reasons of containers, by name.
	waits map[string]wait
	// ends has the last ends of containers, by name.
	ends map[string]runEnd
	// retry is the back-off of syncs that have failed after they were detached.
	retry backoff
	// crashes, pulls and starts are the back-offs of runs that have failed, of images, and of runs that could not be
	// started, by container, image and container.
	crashes, pulls, starts map[string]backoff

	eviction atomic.Pointer[Rejection] // why the pod is evicted, or nil

	granted       atomic.Pointer[corev1.Pod]       // the pod with the resources that it has, while a resize is pending
	standing      atomic.Int32                     // undecided, active, leaving or inactive
	last          atomic.Pointer[corev1.PodStatus] // status, for other goroutines
	interruptible atomic.Bool                      // the current sync may be canceled when the pod must end

	mu       sync.Mutex // guards the fields below
	cancel   context.CancelFunc
	killing  map[string]time.Time // by container ID: when the grace period ends
	verdicts []verdict
}

// The standings of a pod: whether its resources are in use.
const (
	undecided int32 = iota // not synced yet since this process began
	active                 // admitted and not ended
	leaving                // admitted and being evicted: what it has is still taken
	inactive               // ended
)

// runEnd is when a run ended, on the monotonic clock.
type runEnd struct {
	id string
	at time.Time
}

// endOf returns when a run ended. The age of the end is computed once, when it is first seen. Later changes of the wall
// clock do not change any back-off.
func (r *record) endOf(run *container.Container, now time.Time) time.Time {
	if e, ok := r.ends[run.Name]; ok && e.id == run.ID {
		return e.at
	}
	if r.ends == nil {
		r.ends = map[string]runEnd{}
	}
	at := now.Add(-max(now.Sub(run.FinishedAt), 0))
	r.ends[run.Name] = runEnd{run.ID, at}
	return at
}

// wait is the reason and message of a waiting container.
type wait struct{ reason, message string }

// verdict holds the results of probes and hooks for a running container. A pod has few of them, so a slice is used: a
// map would be ten times as large.
type verdict struct {
	id string
	// begun is set once the container was started, even if it does not run yet.
	begun          bool
	started, ready bool
	// restartReason says why the container must be restarted, if it must.
	restartReason string
}

func (r *record) begin(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	r.mu.Lock()
	r.cancel = cancel
	r.mu.Unlock()
	return ctx, func() {
		cancel()
		r.mu.Lock()
		r.cancel = nil
		r.mu.Unlock()
	}
}

func (r *record) interrupt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancel != nil {
		r.cancel()
	}
}

func (r *record) wait(name, reason, message string) {
	if r.waits == nil {
		r.waits = map[string]wait{}
	}
	r.waits[name] = wait{reason, message}
}

func (r *record) updateVerdict(id string, change func(*verdict)) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.verdictLocked(id)
	before := v
	change(&v)
	if v == before {
		return false
	}
	r.dropVerdictLocked(id)
	r.verdicts = append(r.verdicts, v)
	return true
}

func (r *record) verdictOf(id string) verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.verdictLocked(id)
}

func (r *record) verdictLocked(id string) verdict {
	for _, v := range r.verdicts {
		if v.id == id {
			return v
		}
	}
	return verdict{id: id}
}

// dropVerdict removes the verdict on a container that is gone.
func (r *record) dropVerdict(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropVerdictLocked(id)
}

func (r *record) dropVerdictLocked(id string) {
	r.verdicts = slices.DeleteFunc(r.verdicts, func(v verdict) bool { return v.id == id })
}

// beginStop notes that a container is being stopped. It returns false if a stop is already under way that ends no
// later.
func (r *record) beginStop(id string, by time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if until, ok := r.killing[id]; ok && !by.Before(until) {
		return false
	}
	if r.killing == nil {
		r.killing = map[string]time.Time{}
	}
	r.killing[id] = by
	return true
}

func (r *record) stopDone(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.killing, id)
}

// isStopping reports whether a container is being stopped.
func (r *record) isStopping(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.killing[id]
	return ok
}

func (r *record) wake(now time.Time) time.Duration {
	if r.endBy.IsZero() {
		return 0
	}
	return max(r.endBy.Sub(now), time.Second)
}
