package scheduler

import (
	"fmt"
	"math"
	"slices"
	"time"

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

// preempt finds victims for a pod without a suitable node. It returns a note for the pod's message, the node to which
// the pod is nominated (nil if that does not change), and the victims, which are to be deleted. hopeless means that
// preemption helps on no node.
func (c *chooser) preempt(p *profile, pod *cluster.Pod, x placement.Extra, hopeless bool) (
	note string, nominated *string, victims *preemption.Candidate,
) {
	if p.NoPreemption {
		return "", nil, nil
	}
	if pod.NeverPreempts {
		return "not eligible due to preemptionPolicy=Never.", nil, nil
	}
	if c.awaitsVictims(p, pod, x, hopeless) {
		return "not eligible due to a terminating pod on the nominated node.", nil, nil
	}
	c.options.Metrics.PreemptionAttempt()
	var found *preemption.Candidate
	var verdicts []*plugin.Verdict
	var err error
	c.unnominate(pod)
	if !hopeless {
		found, verdicts, err = c.searchVictims(p, pod, x)
	}
	nobody := ""
	switch {
	case c.released && !c.isCurrent(pod):
		return "", nil, nil
	case err != nil:
		return err.Error(), &nobody, nil
	case found == nil:
		return c.explainNoVictims(p, verdicts), &nobody, nil
	}
	c.state.Nominate(pod, found.Node.Name)
	c.options.Metrics.Preempted(len(found.Victims))
	c.displace(pod, found.Node.Name)
	note = fmt.Sprintf("found a potential placement for pod on node %v, preempting %d victims", found.Node.Name, len(found.Victims))
	return note, &found.Node.Name, found
}

// awaitsVictims reports whether victims of this pod are still terminating, on a node that is suitable without them.
func (c *chooser) awaitsVictims(p *profile, pod *cluster.Pod, x placement.Extra, hopeless bool) bool {
	if _, sending := c.preempting[pod.UID]; sending {
		return true
	}
	node, ok := c.state.NodeNamed(c.state.Nominated(pod.Key))
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

// searchVictims finds the best node for a preemption. The search starts at a random node, so that not all pods compare
// the same ones.
func (c *chooser) searchVictims(p *profile, pod *cluster.Pod, x placement.Extra) (*preemption.Candidate, []*plugin.Verdict, error) {
	trial, reserved := p.engine.Try(pod.Shape), &nominatedAdmission{state: &c.state, profile: p, pod: pod}
	search := &preemption.Search{
		State: &c.state, Pod: pod, Budgets: c.budgets.all(), Cache: c.candidateCache(p, pod, x),
		// If pods are nominated to the node the filters are called twice: with these pods, because they will need
		// capacity, and without them, because they may never come.
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
	asked, object := c.askedToPreempt(pod)
	if len(asked) == 0 && search.Cache != nil && search.Cache.Enough() {
		if found := search.BestCached(c.random.IntN(math.MaxInt32)); found != nil {
			return found, nil, nil
		}
	}
	nodes := p.engine.Crowded(pod.Shape, c.withNominated(p, pod, x))
	if !c.state.HasBelow(pod.Priority) {
		verdicts := make([]*plugin.Verdict, len(nodes))
		for i := range verdicts {
			verdicts[i] = preemption.NoVictims
		}
		return nil, verdicts, nil
	}
	if len(nodes) > 0 {
		at := c.random.IntN(len(nodes))
		nodes = append(nodes[at:len(nodes):len(nodes)], nodes[:at]...)
	}
	search.Enough = max(len(nodes)*p.Candidates.Percent/100, p.Candidates.Least)
	if len(asked) > 0 {
		return c.searchAgreed(asked, object, search, nodes)
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
func (c *chooser) candidateCache(p *profile, pod *cluster.Pod, x placement.Extra) *preemption.CandidateCache {
	if x.Before != nil || x.After != nil || c.state.AffineNominated() || p.engine.Related(pod.Shape) {
		return nil
	}
	kept := keptFor(c.candidateCaches, cacheKey{p, pod.Shape.Demand, pod.Priority})
	kept.Refresh(&c.state, c.budgets.version)
	return kept
}

// explainNoVictims returns kube-scheduler's message if there are no victims.
func (c *chooser) explainNoVictims(p *profile, verdicts []*plugin.Verdict) string {
	for len(verdicts) < c.state.Nodes() {
		verdicts = append(verdicts, unhelpful)
	}
	return p.engine.Explain(verdicts).Error()
}

// displace takes the nomination to a node from pods that are less important than the one for which room is made there.
func (c *chooser) displace(pod *cluster.Pod, node string) {
	for _, other := range c.state.NominatedOn(node) {
		if other.Priority < pod.Priority {
			c.unnominate(other)
			c.reporter.unnominated(other)
			c.backlog.WakeOne(other.Key, time.Now())
		}
	}
	c.preempting[pod.UID] = struct{}{}
}
