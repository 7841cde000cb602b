package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/scheduler/internal/backlog"
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/preemption"
	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
	"github.com/millrace/millrace/internal/scheduler/placement"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// chooser decides about pods, one after the other: which node one gets, or what may make room for it. It changes what
// is known, and sends nothing but questions to extenders. One goroutine uses it; what it keeps is guarded by the lock
// of the knowledge all the same, because engines are.
type chooser struct {
	*knowledge
	random   *rand.Rand
	attempts uint64
	released bool // the lock was released in this attempt, while extenders were called

	candidateCaches map[cacheKey]*preemption.CandidateCache
	besideNominated map[cacheKey]*besideNominated

	extenderContext context.Context // the context of requests to extenders
}

// newChooser returns a chooser. ctx is the context of its questions to extenders.
func newChooser(ctx context.Context, k *knowledge) *chooser {
	return &chooser{
		knowledge: k, random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		candidateCaches: make(map[cacheKey]*preemption.CandidateCache),
		besideNominated: make(map[cacheKey]*besideNominated),
		extenderContext: ctx,
	}
}

// decision is what was decided about a pod: its node, on which it counts, or what may make room for it.
type decision struct {
	entry       *backlog.Entry
	pod         *cluster.Pod
	node        string // empty if none was found
	profile     *profile
	cases       cases
	nodes       int // how many there were
	begun       time.Time
	changeCount uint64 // the value of changeCount at that time

	victims *preemption.Candidate // pods that are to be deleted, and their node; nil if none
	release *release              // claims that are to be released; nil if none
}

// attempt tries the next pod. If it found no node, next is now when another pod can be tried at once; otherwise it is
// the time at which the next pod is due.
func (c *chooser) attempt(now time.Time) (d decision, next time.Time) {
	c.lock()
	defer c.mu.Unlock()
	defer c.reportSizes()
	c.backlog.Advance(now)
	entry, ok := c.backlog.Pop(now)
	if !ok {
		next, _ = c.backlog.Next()
		return decision{}, next
	}
	pod := entry.Pod
	p := c.profiles[pod.SchedulerName]
	d = decision{entry: entry, pod: pod, profile: p, begun: now, changeCount: c.changeCount}
	c.released = false
	node, failure, rule, err := c.choose(&d, now)
	var refusal plugin.Refusal
	var pending plugin.Pending
	switch {
	case errors.Is(err, errGone):
	case rule == "" && err != nil:
		c.retryLater(entry, p, err.Error(), now)
	case errors.As(err, &pending):
		c.backlog.Fail(entry, p.engine.Refused(rule, "").Refused, now)
	case errors.As(err, &refusal) && c.state.Nodes() > 0:
		c.unplaced(&d, p.engine.Refused(rule, err.Error()), rule, now)
	case err != nil:
		c.retryLater(entry, p, fmt.Sprintf("running PreFilter plugin %q: %v", rule, err), now)
	case failure != nil && failure.Broken:
		c.retryLater(entry, p, failure.Error(), now)
	case failure != nil:
		c.unplaced(&d, failure, "", now)
	default:
		if rule, err := c.reserve(d, node); err != nil {
			c.retryLater(entry, p, fmt.Sprintf("running Reserve plugin %q: %v", rule, err), now)
			break
		}
		c.assume(pod, node)
		d.node, d.nodes = node.Name, c.state.Nodes()
	}
	return d, now
}

// choose finds the node for the pod of a decision, and measures that. rule is the pod rule that has failed, if any.
func (c *chooser) choose(d *decision, now time.Time) (node *cluster.Node, failure *placement.Failure, rule string, err error) {
	p, begun := d.profile, time.Now() // before that it waited for the lock
	d.cases, rule, err = p.compiled.Open(d.pod, &c.state)
	if err != nil || len(d.cases) > 0 {
		opened := time.Now()
		p.metrics.Ran(PreFilter, statusOf(err), opened.Sub(begun))
		begun = opened
	}
	if err == nil {
		node, failure, err = c.findNode(p, d.entry, d.cases.extra())
		decided := time.Now()
		p.metrics.Ran(Filter, filterStatus(failure, err), decided.Sub(begun))
		begun = decided
	}
	c.options.Metrics.Decided(begun.Sub(now))
	c.sample(p, d.pod, node)
	return node, failure, rule, err
}

// findNode finds the node for a pod, with extenders if there are any for it.
func (c *chooser) findNode(p *profile, entry *backlog.Entry, x placement.Extra) (*cluster.Node, *placement.Failure, error) {
	if asked, object := c.extendersOf(entry.Pod); len(asked) > 0 && c.state.Nodes() > 0 {
		return c.placeExtended(p, entry, x, asked, object)
	}
	node, failure := c.place(p, entry.Pod, x)
	return node, failure, nil
}

// retryLater lets a pod back off for which no decision could be made.
func (c *chooser) retryLater(entry *backlog.Entry, p *profile, message string, now time.Time) {
	c.backlog.Retry(entry, now)
	c.reporter.failed(entry.Pod, message)
	c.options.Metrics.Attempt(p.SchedulerName, Failed, time.Since(now))
}

// unplaced makes a pod unschedulable that found no node, and reports why. rule is the rule that has refused all nodes
// at once, if any.
func (c *chooser) unplaced(d *decision, failure *placement.Failure, rule string, now time.Time) {
	message := failure.Error()
	var nominated *string
	if c.state.Nodes() > 0 {
		var note string
		if note, nominated = c.afterFailure(d, rule); note != "" {
			message += " " + note
		}
	}
	c.backlog.Fail(d.entry, failure.Refused, now)
	if c.released && c.changeCount != d.changeCount {
		c.backlog.WakeOne(d.pod.Key, now) // something may have changed while extenders were called
	}
	c.reporter.unschedulable(d.pod, message, nominated)
	c.options.Metrics.Attempt(d.profile.SchedulerName, Unschedulable, time.Since(now))
}

// afterFailure decides what may let the pod be placed later: claims are released or other pods preempted. It returns a
// note for the pod's message.
func (c *chooser) afterFailure(d *decision, rule string) (note string, nominated *string) {
	if last := d.profile.lastRule(); rule != "" && last != "" && rule != last {
		// Then kube-scheduler's rule for devices has not checked the pod, and says so before preemption is tried.
		return "not found", nil
	}
	rescued := ""
	if c.options.Writer != nil {
		if d.release = releaseOf(d.cases); d.release != nil {
			rescued = d.release.note
		}
	}
	if rescued == "" && rule == "" && slices.ContainsFunc(d.cases, func(o ruleset.Opened) bool { return o.Late }) {
		rescued = "still not schedulable"
	}
	begun := time.Now()
	note, nominated, d.victims = c.preempt(d.profile, d.pod, d.cases.extra(), rule != "")
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
