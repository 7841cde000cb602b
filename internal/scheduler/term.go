package scheduler

import (
	"context"
	"errors"
	"fmt"
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

// term is one run of a scheduler: its state and its current work.
type term struct {
	options  Options
	interner cluster.Interner
	reporter *reporter
	wake     chan struct{} // holds a token when the loop has something to do
	news     news

	mu       sync.Mutex          // see lock
	state    cluster.State       // guarded by mu
	backlog  *backlog.Queue      // guarded by mu
	profiles map[string]*profile // the engines in it are guarded by mu
	sizes    backlog.Sizes       // guarded by mu: as last reported to the metrics
	random   *rand.Rand          // guarded by mu
	attempts uint64              // guarded by mu
	measured bool                // somebody wants to know how long rules take

	scoresDevices bool // some rule rates how many devices are allocated

	preempting      map[types.UID]struct{}                  // guarded by mu: pods whose victims are being deleted
	candidateCaches map[cacheKey]*preemption.CandidateCache // guarded by mu
	besideNominated map[cacheKey]*besideNominated           // guarded by mu
	budgets         budgets                                 // guarded by mu
	changeCount     uint64                                  // guarded by mu: counts changes after which pods may be placed
	released        bool                                    // guarded by mu: mu was released in this attempt, while extenders were called
	evictionContext context.Context                         // the context of those deletions
	evictions       sync.WaitGroup
	evictors        chan struct{}   // limits them
	extenderContext context.Context // the context of requests to extenders

	storageChange chan struct{} // guarded by mu: closed at a change of volumes; nil if no goroutine waits for that
}

type profile struct {
	Profile
	metrics  ProfileMetrics
	engine   *placement.Engine
	requeued ruleset.Bits // by the change that is being handled
}

func newTerm(options Options) *term {
	t := &term{
		options:  options,
		reporter: newReporter(options),
		wake:     make(chan struct{}, 1),
		backlog:  backlog.New(options.Backlog),
		profiles: make(map[string]*profile),
		random:   rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),

		preempting:      make(map[types.UID]struct{}),
		candidateCaches: make(map[cacheKey]*preemption.CandidateCache),
		besideNominated: make(map[cacheKey]*besideNominated),
		budgets:         budgets{known: make(map[informer.Key]preemption.Budget)},
		evictors:        make(chan struct{}, options.Parallelism),
	}
	_, unmeasured := options.Metrics.(noMetrics)
	t.measured = !unmeasured
	for _, p := range options.Profiles {
		t.read(p.compiled.Readers())
		t.scoresDevices = t.scoresDevices || p.compiled.ScoresExtended()
		random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
		t.profiles[p.SchedulerName] = &profile{
			Profile: p, metrics: options.Metrics.Profile(p.SchedulerName), engine: placement.New(&t.state, p.compiled, random),
		}
	}
	return t
}

// read collects the pod readers of rules. Rules of several profiles with the same name count as the same.
func (t *term) read(readers []cluster.PodReader) {
	for _, r := range readers {
		if !slices.ContainsFunc(t.interner.Readers, func(known cluster.PodReader) bool { return known.Name == r.Name }) {
			t.interner.Readers = append(t.interner.Readers, r)
		}
	}
}

// run places pods one after the other and binds many at a time.
func (t *term) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { t.reporter.run(ctx) })

	binding, stop := context.WithCancel(context.WithoutCancel(ctx))
	running.Go(func() { t.grace(ctx, binding, stop) })
	defer stop()
	t.evictionContext, t.extenderContext = binding, ctx
	defer t.evictions.Wait()
	var bindings sync.WaitGroup
	defer bindings.Wait()

	slots := make(chan struct{}, t.options.Parallelism)
	decisions := make(chan decision)
	defer close(decisions)
	binders := 0
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		d, ok := t.decide(ctx)
		if !ok {
			return
		}
		if d.cases.prepare() {
			// Preparing may take minutes, for example for volumes, and uses no slot meanwhile.
			<-slots
			bindings.Go(func() { t.bind(binding, d) })
			continue
		}
		select {
		case decisions <- d:
			continue
		default:
		}
		if binders < t.options.Parallelism { // the goroutine is kept: its grown stack is used for the next binding
			binders++
			bindings.Go(func() { t.bindAll(binding, decisions, slots) })
		}
		decisions <- d // the goroutine that has freed a slot is about to take it
	}
}

// bindAll binds the decisions from the channel until it is closed.
func (t *term) bindAll(ctx context.Context, decisions <-chan decision, slots <-chan struct{}) {
	for d := range decisions {
		t.bind(ctx, d)
		<-slots
	}
}

// grace stops bindings some time after ctx has ended, so that requests in progress get their answers.
func (t *term) grace(ctx, binding context.Context, stop context.CancelFunc) {
	select {
	case <-ctx.Done():
	case <-binding.Done():
		return
	}
	timer := time.NewTimer(t.options.Grace)
	defer timer.Stop()
	select {
	case <-timer.C:
		stop()
	case <-binding.Done():
	}
}

// decision is a pod and its chosen node, on which it counts.
type decision struct {
	entry       *backlog.Entry
	pod         *cluster.Pod
	node        string
	profile     *profile
	cases       cases
	begun       time.Time
	changeCount uint64 // the value of changeCount at that time
}

// decide waits for a pod that can be placed, and places it. It returns false when ctx ends.
func (t *term) decide(ctx context.Context) (decision, bool) {
	for ctx.Err() == nil {
		d, placed, next := t.attempt(time.Now())
		if placed {
			return d, true
		}
		if !t.pause(ctx, next) {
			return decision{}, false
		}
	}
	return decision{}, false
}

// pause waits until there may be something to do, or until next if that is set.
func (t *term) pause(ctx context.Context, next time.Time) bool {
	var due <-chan time.Time
	if !next.IsZero() {
		timer := time.NewTimer(time.Until(next))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-t.wake:
	case <-due:
	}
	return true
}

func (t *term) wakeLoop() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// attempt tries the next pod. If it found no node, next is now when another pod can be tried at once; otherwise it is
// the time at which the next pod is due.
func (t *term) attempt(now time.Time) (d decision, placed bool, next time.Time) {
	t.lock()
	defer t.mu.Unlock()
	defer t.reportSizes()
	t.backlog.Advance(now)
	entry, ok := t.backlog.Pop(now)
	if !ok {
		next, _ = t.backlog.Next()
		return decision{}, false, next
	}
	pod := entry.Pod
	p := t.profiles[pod.SchedulerName]
	d = decision{entry: entry, pod: pod, profile: p, begun: now, changeCount: t.changeCount}
	t.released = false
	node, failure, rule, err := t.choose(&d, now)
	var refusal plugin.Refusal
	var pending plugin.Pending
	switch {
	case errors.Is(err, errGone):
	case rule == "" && err != nil:
		t.retryLater(entry, p, err.Error(), now)
	case errors.As(err, &pending):
		t.backlog.Fail(entry, p.engine.Refused(rule, "").Refused, now)
	case errors.As(err, &refusal) && t.state.Nodes() > 0:
		t.unplaced(d, p.engine.Refused(rule, err.Error()), rule, now)
	case err != nil:
		t.retryLater(entry, p, fmt.Sprintf("running PreFilter plugin %q: %v", rule, err), now)
	case failure != nil && failure.Broken:
		t.retryLater(entry, p, failure.Error(), now)
	case failure != nil:
		t.unplaced(d, failure, "", now)
	default:
		if rule, err := t.reserve(d, node); err != nil {
			t.retryLater(entry, p, fmt.Sprintf("running Reserve plugin %q: %v", rule, err), now)
			break
		}
		t.assume(pod, node)
		d.node = node.Name
		return d, true, now
	}
	return decision{}, false, now
}

// choose finds the node for the pod of a decision, and measures that. rule is the pod rule that has failed, if any.
func (t *term) choose(d *decision, now time.Time) (node *cluster.Node, failure *placement.Failure, rule string, err error) {
	p, begun := d.profile, time.Now() // before that it waited for the lock
	d.cases, rule, err = p.compiled.Open(d.pod, &t.state)
	if err != nil || len(d.cases) > 0 {
		opened := time.Now()
		p.metrics.Ran(PreFilter, statusOf(err), opened.Sub(begun))
		begun = opened
	}
	if err == nil {
		node, failure, err = t.findNode(p, d.entry, d.cases.extra())
		decided := time.Now()
		p.metrics.Ran(Filter, filterStatus(failure, err), decided.Sub(begun))
		begun = decided
	}
	t.options.Metrics.Decided(begun.Sub(now))
	t.sample(p, d.pod, node)
	return node, failure, rule, err
}

// findNode finds the node for a pod, with extenders if there are any for it.
func (t *term) findNode(p *profile, entry *backlog.Entry, x placement.Extra) (*cluster.Node, *placement.Failure, error) {
	if asked, object := t.extendersOf(entry.Pod); len(asked) > 0 && t.state.Nodes() > 0 {
		return t.placeExtended(p, entry, x, asked, object)
	}
	node, failure := t.place(p, entry.Pod, x)
	return node, failure, nil
}

// retryLater lets a pod back off for which no decision could be made.
func (t *term) retryLater(entry *backlog.Entry, p *profile, message string, now time.Time) {
	t.backlog.Retry(entry, now)
	t.reporter.failed(entry.Pod, message)
	t.options.Metrics.Attempt(p.SchedulerName, Failed, time.Since(now))
}

// assume lets a pod count on its node. If it was nominated to another one, other pods may use that capacity.
func (t *term) assume(pod *cluster.Pod, node *cluster.Node) {
	if t.state.Nominated(pod.Key) != node.Name {
		t.unnominate(pod)
	}
	t.state.Assume(pod, node)
}

// unplaced makes a pod unschedulable that found no node, and reports why. rule is the rule that has refused all nodes at
// once, if any.
func (t *term) unplaced(d decision, failure *placement.Failure, rule string, now time.Time) {
	message := failure.Error()
	var nominated *string
	if t.state.Nodes() > 0 {
		var note string
		if note, nominated = t.afterFailure(d, rule); note != "" {
			message += " " + note
		}
	}
	t.backlog.Fail(d.entry, failure.Refused, now)
	if t.released && t.changeCount != d.changeCount {
		t.backlog.WakeOne(d.pod.Key, now) // something may have changed while extenders were called
	}
	t.reporter.unschedulable(d.pod, message, nominated)
	t.options.Metrics.Attempt(d.profile.SchedulerName, Unschedulable, time.Since(now))
}

// afterFailure does what may let the pod be placed later: it releases claims or preempts other pods. It returns a note for the pod's
// message.
func (t *term) afterFailure(d decision, rule string) (note string, nominated *string) {
	if last := d.profile.lastRule(); rule != "" && last != "" && rule != last {
		// Then kube-scheduler's rule for devices has not checked the pod, and says so before preemption is tried.
		return "not found", nil
	}
	rescued := t.releaseClaims(d)
	if rescued == "" && rule == "" && slices.ContainsFunc(d.cases, func(o ruleset.Opened) bool { return o.Late }) {
		rescued = "still not schedulable"
	}
	begun := time.Now()
	note, nominated = t.preempt(d.profile, d.pod, d.cases.extra(), rule != "")
	status := Refused
	if nominated != nil && *nominated != "" {
		status = Succeeded
	}
	d.profile.metrics.Ran(PostFilter, status, time.Since(begun))
	if note != "" {
		note = "preemption: " + note
	}
	if rescued != "" && note != "" {
		rescued += ", "
	}
	return rescued + note, nominated
}

// lastRule returns the name of the last pod rule if it is reported after the others, like that for devices; otherwise "".
func (p *profile) lastRule() string {
	for _, r := range p.compiled.Pods {
		if _, late := r.Plugin.(plugin.Late); late {
			return r.Plugin.Name()
		}
	}
	return ""
}

// wakeFor wakes the pods that may be placed after a change of node, or of something else if node is nil.
func (t *term) wakeFor(change cluster.Change, node *cluster.Node) { t.wakeSomeFor(change, node, nil) }

// wakeSomeFor is wakeFor for those pods for which some is true; nil means all. Capacity that a removed pod has freed is not
// offered to other pods if it is for the pods that are nominated to that node.
func (t *term) wakeSomeFor(change cluster.Change, node *cluster.Node, some func(*cluster.Pod) bool) {
	if change == 0 {
		return
	}
	t.changeCount++
	if t.backlog.Sizes().Unschedulable == 0 {
		return
	}
	for _, p := range t.profiles {
		p.requeued = p.engine.RequeuedBy(change)
	}
	reserved := change == cluster.PodGone && node != nil && len(t.state.NominatedOn(node.Name)) > 0
	local := false // the rules that refused the group depend on single nodes
	spare := make(map[cacheKey]bool)
	t.backlog.Wake(time.Now(), backlog.EventOf(change), func(g backlog.Group) bool {
		p := t.profiles[g.SchedulerName]
		refused := g.Refused & p.requeued
		local = p.engine.Local(refused)
		return p.engine.Helps(refused, change, g.Shape, node)
	}, func(pod *cluster.Pod) bool {
		if some != nil && !some(pod) {
			return false
		}
		if !reserved || !local || t.state.Nominated(pod.Key) == node.Name {
			return true
		}
		like := cacheKey{t.profiles[pod.SchedulerName], pod.Shape.Demand, pod.Priority}
		is, asked := spare[like]
		if !asked {
			is = t.hasRoomBesideNominated(like.profile, pod, node)
			spare[like] = is
		}
		return is
	})
}

// reportSizes reports the sizes of the queue's parts to the metrics, as far as they have changed.
func (t *term) reportSizes() {
	sizes := t.backlog.Sizes()
	t.reportSizesAs(sizes)
}

// clearSizes reports that no pods are waiting, because this scheduler has stopped.
func (t *term) clearSizes() {
	t.lock()
	defer t.mu.Unlock()
	t.reportSizesAs(backlog.Sizes{})
}

func (t *term) reportSizesAs(sizes backlog.Sizes) {
	tell := func(queue string, was, is int) {
		if was != is {
			t.options.Metrics.Pending(queue, is)
		}
	}
	tell("active", t.sizes.Active, sizes.Active)
	tell("backoff", t.sizes.BackingOff, sizes.BackingOff)
	tell("unschedulable", t.sizes.Unschedulable, sizes.Unschedulable)
	tell("gated", t.sizes.Gated, sizes.Gated)
	t.sizes = sizes
}
