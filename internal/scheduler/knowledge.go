package scheduler

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/scheduler/internal/backlog"
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/preemption"
	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
	"github.com/millrace/millrace/internal/scheduler/placement"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// A run of the scheduler has three parts, of which each uses only those before it: what is known of the cluster and
// which pods wait (knowledge), which node a pod gets or which pods must go for it (chooser), and carrying that out
// (binder).

// knowledge is what a run knows of the cluster, and the pods that wait.
type knowledge struct {
	options  Options
	interner cluster.Interner
	reporter *reporter
	wake     chan struct{} // holds a token when there is something to do
	news     news
	measured bool // somebody wants to know how long rules take

	scoresDevices bool // some rule rates how many devices are allocated

	mu            sync.Mutex             // see lock
	state         cluster.State          // guarded by mu
	backlog       *backlog.Queue         // guarded by mu
	profiles      map[string]*profile    // the engines in it are guarded by mu
	sizes         backlog.Sizes          // guarded by mu: as last reported to the metrics
	budgets       budgets                // guarded by mu
	preempting    map[types.UID]struct{} // guarded by mu: pods whose victims are being deleted
	changeCount   uint64                 // guarded by mu: counts changes after which pods may be placed
	storageChange chan struct{}          // guarded by mu: closed at a change of volumes; nil if no goroutine waits for that
}

type profile struct {
	Profile
	metrics  ProfileMetrics
	engine   *placement.Engine
	requeued ruleset.Bits // by the change that is being handled
}

func newKnowledge(options Options) *knowledge {
	k := &knowledge{
		options:    options,
		reporter:   newReporter(options),
		wake:       make(chan struct{}, 1),
		backlog:    backlog.New(options.Backlog),
		profiles:   make(map[string]*profile),
		preempting: make(map[types.UID]struct{}),
		budgets:    budgets{known: make(map[informer.Key]preemption.Budget)},
	}
	_, unmeasured := options.Metrics.(noMetrics)
	k.measured = !unmeasured
	for _, p := range options.Profiles {
		k.read(p.compiled.Readers())
		k.scoresDevices = k.scoresDevices || p.compiled.ScoresExtended()
		random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
		k.profiles[p.SchedulerName] = &profile{
			Profile: p, metrics: options.Metrics.Profile(p.SchedulerName), engine: placement.New(&k.state, p.compiled, random),
		}
	}
	return k
}

// read collects the pod readers of rules. Rules of several profiles with the same name count as the same.
func (k *knowledge) read(readers []cluster.PodReader) {
	for _, r := range readers {
		if !slices.ContainsFunc(k.interner.Readers, func(known cluster.PodReader) bool { return known.Name == r.Name }) {
			k.interner.Readers = append(k.interner.Readers, r)
		}
	}
}

// lastRule returns the name of the last pod rule if it is reported after the others, like that for devices; otherwise
// "".
func (p *profile) lastRule() string {
	for _, r := range p.compiled.Pods {
		if _, late := r.Plugin.(plugin.Late); late {
			return r.Plugin.Name()
		}
	}
	return ""
}

func (k *knowledge) wakeLoop() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// pause waits until there may be something to do, or until next if that is set.
func (k *knowledge) pause(ctx context.Context, next time.Time) bool {
	var due <-chan time.Time
	if !next.IsZero() {
		timer := time.NewTimer(time.Until(next))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-k.wake:
	case <-due:
	}
	return true
}

// assume lets a pod count on its node. If it was nominated to another one, other pods may use that capacity.
func (k *knowledge) assume(pod *cluster.Pod, node *cluster.Node) {
	if k.state.Nominated(pod.Key) != node.Name {
		k.unnominate(pod)
	}
	k.state.Assume(pod, node)
}

// isCurrent reports whether a pod still waits for a node.
func (k *knowledge) isCurrent(pod *cluster.Pod) bool {
	now := k.backlog.Pod(pod.Key)
	return now != nil && now.UID == pod.UID
}

// reportSizes reports the sizes of the queue's parts to the metrics, as far as they have changed.
func (k *knowledge) reportSizes() {
	sizes := k.backlog.Sizes()
	k.reportSizesAs(sizes)
}

// clearSizes reports that no pods are waiting, because this scheduler has stopped.
func (k *knowledge) clearSizes() {
	k.lock()
	defer k.mu.Unlock()
	k.reportSizesAs(backlog.Sizes{})
}

func (k *knowledge) reportSizesAs(sizes backlog.Sizes) {
	tell := func(queue string, was, is int) {
		if was != is {
			k.options.Metrics.Pending(queue, is)
		}
	}
	tell("active", k.sizes.Active, sizes.Active)
	tell("backoff", k.sizes.BackingOff, sizes.BackingOff)
	tell("unschedulable", k.sizes.Unschedulable, sizes.Unschedulable)
	tell("gated", k.sizes.Gated, sizes.Gated)
	k.sizes = sizes
}
