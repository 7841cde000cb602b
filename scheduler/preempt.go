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

	"github.com/millrace/millrace/scheduler/internal/cluster"
	"github.com/millrace/millrace/scheduler/internal/preemption"
	"github.com/millrace/millrace/scheduler/placement"
	"github.com/millrace/millrace/scheduler/plugin"
)

// Of the nodes where others could leave a tenth is compared, and at least this many, as kube-scheduler does.
const (
	comparedPercent = 10
	comparedLeast   = 100
)

var unhelpful = &plugin.Verdict{Reasons: []string{"Preemption is not helpful for scheduling"}, Lasting: true}

// preempt looks for pods that can leave for one that found no node, and sends them away. It returns what users are told, and
// the node that the pod is nominated to from now on; nil if that stays as it is. hopeless means that no node can do whoever leaves.
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

// isCurrent says whether a pod still waits for a node.
func (t *term) isCurrent(pod *cluster.Pod) bool {
	now := t.backlog.Pod(pod.Key)
	return now != nil && now.UID == pod.UID
}

// awaitsVictims says whether pods are still leaving for this one, from a node that will do without them.
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

// searchVictims finds the best node for a preemption. The search begins at a random node, so that not all pods compare the same ones.
func (t *term) searchVictims(p *profile, pod *cluster.Pod, x placement.Extra) (*preemption.Candidate, []*plugin.Verdict, error) {
	trial, reserved := p.engine.Try(pod.Shape), &reserve{term: t, profile: p, pod: pod}
	search := &preemption.Search{
		State: &t.state, Pod: pod, Budgets: t.budgets.all(), Kept: t.prospects(p, pod, x),
		// The filters are asked twice if pods wait for the node: with them, as they will take room, and without, as they may
		// never come.
		Ask: func(node *cluster.Node) *plugin.Verdict {
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
	if len(asked) == 0 && search.Kept != nil && search.Kept.Enough() {
		if found := search.Again(t.random.IntN(math.MaxInt32)); found != nil {
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

// likeness is what pods have in common that nodes have the same to offer to.
type likeness struct {
	profile  *profile
	demand   *cluster.Demand
	priority int32
}

// mostProspects is for how many kinds of pods it is kept what nodes have to offer.
const mostProspects = 16

// prospects returns what is kept about others like the pod, up to date; nil if nothing can be kept for it.
func (t *term) prospects(p *profile, pod *cluster.Pod, x placement.Extra) *preemption.Prospects {
	if x.Before != nil || x.After != nil || t.state.AffineNominated() || p.engine.Related(pod.Shape) {
		return nil
	}
	like := likeness{p, pod.Shape.Demand, pod.Priority}
	kept, ok := t.offers[like]
	if !ok {
		if len(t.offers) >= mostProspects {
			clear(t.offers)
		}
		kept = &preemption.Prospects{}
		t.offers[like] = kept
	}
	kept.Refresh(&t.state, t.budgets.stand)
	return kept
}

// explainNoVictims says why nobody can leave, in kube-scheduler's words.
func (t *term) explainNoVictims(p *profile, verdicts []*plugin.Verdict) string {
	for len(verdicts) < t.state.Nodes() {
		verdicts = append(verdicts, unhelpful)
	}
	return p.engine.Explain(verdicts).Error()
}

// carryOutPreemption deletes the victims, while other pods are placed. Pods of lower priority that wait for the same node are
// told to look elsewhere.
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
		err := t.evict(t.evicting, p, pod, found)
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.preempting, pod.UID)
		if err != nil {
			t.options.Logger.Warn("preemption failed", "pod", pod.Key, "node", found.Node.Name, "err", err)
			t.backlog.WakeOne(pod.Key, time.Now())
			t.nudge()
		}
	})
}

// evict deletes the victims, all at a time.
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
		return nil // it has gone already
	case err != nil:
		return fmt.Errorf("preempt pod %s: %w", victim.Key, err)
	}
	t.reporter.preempted(victim, pod, node)
	return nil
}
