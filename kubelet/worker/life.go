package worker

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/kubelet/container"
)

// life is what is remembered of a pod between two turns. All of it can be lost: the runtime and the pod's status in the
// API are enough to go on. Only the turn that has the key touches the fields above the mutex.
type life struct {
	uid types.UID
	// lastDefinition is kept for pods whose end needs their definition, after it is gone.
	lastDefinition *corev1.Pod
	admitted       bool
	prepared       bool
	// failed says why the pod failed, if the kubelet decided so.
	failed *Rejection
	// endBy is when the pod's grace is over, once it is to end.
	endBy time.Time
	// ended: nothing runs any more and nothing will.
	ended bool
	// endReported: the end of a pod that is being deleted has been reported, and needs no repetition.
	endReported bool
	// status is what was told last.
	status *corev1.PodStatus
	// toldAt is the version of the pod for which it was told.
	toldAt string
	// sizing is a resize that is under way, or nil.
	sizing *sizing
	// waits says what containers wait for, by name.
	waits map[string]wait
	// ends are the last ends of containers, by name.
	ends map[string]ending
	// crashes and pulls are back-offs by container and by image.
	crashes, pulls map[string]backoff

	sentence atomic.Pointer[Rejection] // why it is evicted, if somebody said so

	granted atomic.Pointer[corev1.Pod]       // with the resources that it has, while it wants others
	inside  atomic.Bool                      // admitted, and not ended
	last    atomic.Pointer[corev1.PodStatus] // what was told last, for those who ask from outside
	patient atomic.Bool                      // in a turn that the pod's end may interrupt

	mu       sync.Mutex // guards what follows
	cancel   context.CancelFunc
	killing  map[string]time.Time // by container id: when its grace is over
	verdicts []verdict
}

// ending is when a run ended, by a clock that does not jump.
type ending struct {
	id string
	at time.Time
}

// endOf is when a run ended: as long ago as the runtime said when the end was seen first. What the clock does after that
// makes nobody wait for longer, nor for less.
func (l *life) endOf(run *container.Container, now time.Time) time.Time {
	if e, ok := l.ends[run.Name]; ok && e.id == run.ID {
		return e.at
	}
	if l.ends == nil {
		l.ends = map[string]ending{}
	}
	at := now.Add(-max(now.Sub(run.FinishedAt), 0))
	l.ends[run.Name] = ending{run.ID, at}
	return at
}

// wait is what a container that does not run waits for.
type wait struct{ reason, message string }

// verdict is what probes and hooks say of a running container. A pod has few of them: a map would be ten times as large.
type verdict struct {
	id string
	// begun: it was started, even if it does not run yet.
	begun          bool
	started, ready bool
	// condemned says why the container must be replaced.
	condemned string
}

func (l *life) begin(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	l.mu.Lock()
	l.cancel = cancel
	l.mu.Unlock()
	return ctx, func() {
		cancel()
		l.mu.Lock()
		l.cancel = nil
		l.mu.Unlock()
	}
}

func (l *life) interrupt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		l.cancel()
	}
}

func (l *life) wait(name, reason, message string) {
	if l.waits == nil {
		l.waits = map[string]wait{}
	}
	l.waits[name] = wait{reason, message}
}

func (l *life) judge(id string, change func(*verdict)) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.verdictLocked(id)
	before := v
	change(&v)
	if v == before {
		return false
	}
	l.dropVerdictLocked(id)
	l.verdicts = append(l.verdicts, v)
	return true
}

func (l *life) of(id string) verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.verdictLocked(id)
}

func (l *life) verdictLocked(id string) verdict {
	for _, v := range l.verdicts {
		if v.id == id {
			return v
		}
	}
	return verdict{id: id}
}

// dropVerdict forgets what was said of a container that is gone.
func (l *life) dropVerdict(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropVerdictLocked(id)
}

func (l *life) dropVerdictLocked(id string) {
	l.verdicts = slices.DeleteFunc(l.verdicts, func(v verdict) bool { return v.id == id })
}

// mayKill notes that a container is being stopped. It is false if that is under way and ends as soon already.
func (l *life) mayKill(id string, by time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until, ok := l.killing[id]; ok && !by.Before(until) {
		return false
	}
	if l.killing == nil {
		l.killing = map[string]time.Time{}
	}
	l.killing[id] = by
	return true
}

func (l *life) killed(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.killing, id)
}

// dying reports whether a container is being stopped.
func (l *life) dying(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.killing[id]
	return ok
}

func (l *life) wake(now time.Time) time.Duration {
	if l.endBy.IsZero() {
		return 0
	}
	return max(l.endBy.Sub(now), time.Second)
}
