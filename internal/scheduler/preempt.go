package scheduler

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/preemption"
	"github.com/millrace/millrace/internal/scheduler/placement"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// kube-scheduler compares a tenth of the nodes where preemption may help, and at least this many.
const (
	comparedPercent = 10
	comparedLeast   = 100
)

var unhelpful = &plugin.Verdict{Reasons: []string{"Preemption is not helpful for scheduling"}, Lasting: true}

// preempt finds victims for a pod without a suitable node, and deletes them. It returns a note for the pod's message, and the node
// to which the pod is nominated; nil if that does not change. hopeless means that preemption helps on no node.
func (t *term) preempt(p *profile, pod *cluster.Pod, x placement.Extra, hopeless bool) (note string, nominated *string) {
	if p.NoPreemption {
		return "", nil
	}
	if pod.NeverPreempts {
		return "not eligible due to preemptionPolicy=Never.", nil
	}
	if t.awaitsVictims(p, pod, x, hopeless) {
		return "not eligible due to a terminating pod on the nominated node.", nil
	}
	t.options.Metrics.PreemptionAttempt()
	var found *preemption.Candidate
	var verdicts []*plugin.Verdict
	var err error
	t.unnominate(pod)
	if !hopeless {
		found, verdicts, err = t.searchVictims(p, pod, x)
	}
	nobody := ""
	switch {
	case t.released && !t.isCurrent(pod):
		return "", nil
	case err != nil:
		return err.Error(), &nobody
	case found == nil:
		return t.explainNoVictims(p, verdicts), &nobody
	}
	t.state.Nominate(pod, found.Node.Name)
	t.options.Metrics.Preempted(len(found.Victims))
	t.carryOutPreemption(p, pod, found)
	return fmt.Sprintf("found a potential placement for pod on node %v, preempting %d victims", found.Node.Name, len(found.Victims)), &found.Node.Name
}

// isCurrent reports whether a pod still waits for a node.
func (t *term) isCurrent(pod *cluster.Pod) bool {
	now := t.backlog.Pod(pod.Key)
	return now != nil && now.UID == pod.UID
}

// awaitsVictims reports whether victims of this pod are still terminating, on a node that is suitable without them.
func (t *term) awaitsVictims(p *profile, pod *cluster.Pod, x placement.Extra, hopeless bool) bool {
	if _, sending := t.preempting[pod.UID]; sending {
		return true
	}
	node, ok := t.state.NodeNamed(t.state.Nominated(pod.Key))
	if !ok || !node.Present || hopeless {
		return false
	}
	leaving := slices.ContainsFunc(node.Below(pod.Priority), func(other *cluster.Pod) bool { return other.Terminating && other.Preempted })
	if !leaving {
		return false
	}
	v := p.engine.Verdict(pod.Shape, node)
	if v == nil {
		v = x.Verdict(node)
	}
	return v == nil || !v.Lasting
}

// searchVictims finds the best node for a preemption. The search starts at a random node, so that not all pods compare the same ones.
func (t *term) searchVictims(p *profile, pod *cluster.Pod, x placement.Extra) (*preemption.Candidate, []*plugin.Verdict, error) {
	trial, reserved := p.engine.Try(pod.Shape), &nominatedAdmission{term: t, profile: p, pod: pod}
	search := &preemption.Search{
		State: &t.state, Pod: pod, Budgets: t.budgets.all(), Cache: t.candidateCache(p, pod, x),
		// If pods are nominated to the node the filters are called twice: with these pods, because they will need capacity,
		// and without them, because they may never come.
		Filter: func(node *cluster.Node) *plugin.Verdict {
			if v := trial.Verdict(node); v != nil {
				return v
			}
			if v := reserved.verdict(node); v != nil {
				return v
			}
			return x.Verdict(node)
		},
	}
	asked, object := t.askedToPreempt(pod)
	if len(asked) == 0 && search.Cache != nil && search.Cache.Enough() {
		if found := search.BestCached(t.random.IntN(math.MaxInt32)); found != nil {
			return found, nil, nil
		}
	}
	nodes := p.engine.Crowded(pod.Shape, t.withNominated(p, pod, x))
	if !t.state.HasBelow(pod.Priority) {
		verdicts := make([]*plugin.Verdict, len(nodes))
		for i := range verdicts {
			verdicts[i] = preemption.NoVictims
		}
		return nil, verdicts, nil
	}
	if len(nodes) > 0 {
		at := t.random.IntN(len(nodes))
		nodes = append(nodes[at:len(nodes):len(nodes)], nodes[:at]...)
	}
	search.Enough = max(len(nodes)*p.Candidates.Percent/100, p.Candidates.Least)
	if len(asked) > 0 {
		return t.searchAgreed(asked, object, search, nodes)
	}
	found, verdicts := search.Run(nodes)
	return found, verdicts, nil
}

// cacheKey is what pods must have in common to share a cache.
type cacheKey struct {
	profile  *profile
	demand   *cluster.Demand
	priority int32
}

// maxCaches is the number of caches of each sort that are kept.
const maxCaches = 16

// keptFor returns the cache for pods that have the key in common, or a new one.
func keptFor[V any](caches map[cacheKey]*V, like cacheKey) *V {
	kept, ok := caches[like]
	if !ok {
		if len(caches) >= maxCaches {
			clear(caches)
		}
		kept = new(V)
		caches[like] = kept
	}
	return kept
}

// candidateCache returns the updated cache of candidates for pods like this one; nil if nothing can be kept for it.
func (t *term) candidateCache(p *profile, pod *cluster.Pod, x placement.Extra) *preemption.CandidateCache {
	if x.Before != nil || x.After != nil || t.state.AffineNominated() || p.engine.Related(pod.Shape) {
		return nil
	}
	kept := keptFor(t.candidateCaches, cacheKey{p, pod.Shape.Demand, pod.Priority})
	kept.Refresh(&t.state, t.budgets.version)
	return kept
}

// explainNoVictims returns kube-scheduler's message if there are no victims.
func (t *term) explainNoVictims(p *profile, verdicts []*plugin.Verdict) string {
	for len(verdicts) < t.state.Nodes() {
		verdicts = append(verdicts, unhelpful)
	}
	return p.engine.Explain(verdicts).Error()
}

// carryOutPreemption deletes the victims, while other pods are placed. Pods with a lower priority lose their nomination to
// the node.
func (t *term) carryOutPreemption(p *profile, pod *cluster.Pod, found *preemption.Candidate) {
	for _, other := range t.state.NominatedOn(found.Node.Name) {
		if other.Priority < pod.Priority {
			t.unnominate(other)
			t.reporter.unnominated(other)
			t.backlog.WakeOne(other.Key, time.Now())
		}
	}
	t.preempting[pod.UID] = struct{}{}
	t.evictions.Go(func() {
		begun := time.Now()
		err := t.evict(t.evictionContext, p, pod, found)
		t.options.Metrics.Evicted(err, time.Since(begun))
		t.lock()
		defer t.mu.Unlock()
		delete(t.preempting, pod.UID)
		if err != nil {
			t.options.Logger.Warn("preemption failed", "pod", pod.Key, "node", found.Node.Name, "err", err)
			t.backlog.WakeOne(pod.Key, time.Now())
			t.wakeLoop()
		}
	})
}

// evict deletes the victims, all at the same time.
func (t *term) evict(ctx context.Context, p *profile, pod *cluster.Pod, found *preemption.Candidate) error {
	select {
	case t.evictors <- struct{}{}:
		defer func() { <-t.evictors }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var deletions errgroup.Group
	for _, victim := range found.Victims {
		if !victim.Terminating {
			deletions.Go(func() error { return t.evictOne(ctx, p, pod, victim, found.Node.Name) })
		}
	}
	return deletions.Wait()
}

func (t *term) evictOne(ctx context.Context, p *profile, pod, victim *cluster.Pod, node string) error {
	err := t.options.API.Preempt(ctx, victim, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason:             corev1.PodReasonPreemptionByScheduler,
		Message:            p.SchedulerName + ": preempting to accommodate a higher priority pod",
		ObservedGeneration: victim.Generation,
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil // it does not exist any more
	case err != nil:
		return fmt.Errorf("preempt pod %s: %w", victim.Key, err)
	}
	t.reporter.preempted(victim, pod, node)
	return nil
}
