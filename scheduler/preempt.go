package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

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
	if !hopeless {
		found, verdicts = t.searchVictims(p, pod, x)
	}
	if found == nil {
		nobody := ""
		t.unnominate(pod)
		return t.explainNoVictims(p, verdicts), &nobody
	}
	t.unnominate(pod)
	t.state.Nominate(pod, found.Node.Name)
	t.options.Metrics.Preempted(len(found.Victims))
	t.carryOutPreemption(p, pod, found)
	return fmt.Sprintf("found a potential placement for pod on node %v, preempting %d victims", found.Node.Name, len(found.Victims)), &found.Node.Name
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
	v := p.engine.Try(pod.Shape).Verdict(node)
	if v == nil {
		v = x.Verdict(node)
	}
	return v == nil || !v.Lasting
}

// searchVictims finds the best node for a preemption. The search begins at a random node, so that not all pods compare the same ones.
func (t *term) searchVictims(p *profile, pod *cluster.Pod, x placement.Extra) (*preemption.Candidate, []*plugin.Verdict) {
	nodes := p.engine.Crowded(pod.Shape, x)
	if !t.state.HasBelow(pod.Priority) {
		verdicts := make([]*plugin.Verdict, len(nodes))
		for i := range verdicts {
			verdicts[i] = preemption.NoVictims
		}
		return nil, verdicts
	}
	if len(nodes) > 0 {
		at := t.random.IntN(len(nodes))
		nodes = append(nodes[at:len(nodes):len(nodes)], nodes[:at]...)
	}
	trial := p.engine.Try(pod.Shape)
	search := &preemption.Search{
		State: &t.state, Pod: pod, Budgets: t.budgets(),
		Enough: max(len(nodes)*p.Candidates.Percent/100, p.Candidates.Least),
		Ask: func(node *cluster.Node) *plugin.Verdict {
			if v := t.verdictWithNominated(p, trial, pod, node); v != nil {
				return v
			}
			return x.Verdict(node)
		},
	}
	return search.Run(nodes)
}

// budgets are the disruption budgets there are.
func (t *term) budgets() []preemption.Budget {
	if t.options.Watched.Budgets == nil {
		return nil
	}
	var budgets []preemption.Budget
	for object := range t.options.Watched.Budgets.List() {
		if b, ok := preemption.BudgetOf(object); ok {
			budgets = append(budgets, b)
		}
	}
	return budgets
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

// evict deletes the victims, one after the other: most preemptions have one or two.
func (t *term) evict(ctx context.Context, p *profile, pod *cluster.Pod, found *preemption.Candidate) error {
	select {
	case t.evictors <- struct{}{}:
		defer func() { <-t.evictors }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, victim := range found.Victims {
		if victim.Terminating {
			continue
		}
		err := t.options.API.Preempt(ctx, victim, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason:             corev1.PodReasonPreemptionByScheduler,
			Message:            p.SchedulerName + ": preempting to accommodate a higher priority pod",
			ObservedGeneration: victim.Generation,
		})
		switch {
		case apierrors.IsNotFound(err):
			continue // it has gone already
		case err != nil:
			return fmt.Errorf("preempt pod %s: %w", victim.Key, err)
		}
		t.reporter.preempted(victim, pod, found.Node.Name)
	}
	return nil
}
