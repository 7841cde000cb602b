package preemption

import (
	"slices"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Search finds a node on which a pod can be placed if other pods are deleted.
type Search struct {
	State   *cluster.State
	Pod     *cluster.Pod
	Budgets []Budget
	// Filter returns nil if all filters admit the pod to a node in the current state, including the overlay.
	Filter func(*cluster.Node) *plugin.Verdict
	// Enough is the number of candidates to compare. 0 means all.
	Enough int
	// Cache has the candidates of earlier searches for equal pods. nil: no cache.
	Cache *CandidateCache

	onCandidate func(*Candidate) // called for each candidate; may be nil
}

// Candidate is a node, and the pods that would have to be deleted.
type Candidate struct {
	Node    *cluster.Node
	Victims []*cluster.Pod // the most important first
	// Violations is the number of victims that are protected by disruption budgets.
	Violations int

	guarded bool // one of the pods with a lower priority has a budget
}

// Run checks nodes that refuse the pod because of the pods there, and returns the best candidate; nil if there is none.
// Then the verdicts are the reasons, one for each node.
func (s *Search) Run(nodes []*cluster.Node) (*Candidate, []*plugin.Verdict) {
	if s.Cache != nil {
		s.Cache.enough = s.Enough
	}
	for {
		best, verdicts := s.compare(nodes)
		if best == nil || s.Cache == nil {
			return best, verdicts
		}
		// The cached pods may not be the newest versions.
		now, v := s.victimsOn(best.Node)
		if v == nil {
			return &now, nil
		}
		s.Cache.put(best.Node, cachedNode{verdict: v})
	}
}

// BestCached returns the best cached candidate that is still valid; nil if there is none. Among equal ones it starts at
// first.
func (s *Search) BestCached(first int) *Candidate {
	for {
		best := s.Cache.best(first)
		if best == nil {
			return nil
		}
		now, v := s.victimsOn(best.Node)
		if v == nil {
			return &now
		}
		s.Cache.put(best.Node, cachedNode{verdict: v})
	}
}

// All checks nodes like Run, and returns all candidates that it compares.
func (s *Search) All(nodes []*cluster.Node) ([]Candidate, []*plugin.Verdict) {
	var found []Candidate
	s.Cache, s.onCandidate = nil, func(c *Candidate) { found = append(found, *c) }
	_, verdicts := s.compare(nodes)
	return found, verdicts
}

// Best returns the candidate that Run would return, or nil.
func Best(found []Candidate) *Candidate {
	var best *Candidate
	for i := range found {
		slices.SortStableFunc(found[i].Victims, byImportance)
		if best == nil || better(&found[i], best) {
			best = &found[i]
		}
	}
	return best
}

// compare returns the best candidate. Nodes in the cache come first.
func (s *Search) compare(nodes []*cluster.Node) (best *Candidate, verdicts []*plugin.Verdict) {
	found := 0
	withoutViolation := false // a candidate violates no budget
	meet := func(p *cachedNode) {
		if p.candidate == nil {
			verdicts = append(verdicts, p.verdict)
			return
		}
		if s.onCandidate != nil {
			s.onCandidate(p.candidate)
		}
		found++
		withoutViolation = withoutViolation || p.candidate.Violations == 0
		if best == nil || better(p.candidate, best) {
			best = p.candidate
		}
	}
	unknown := nodes
	if s.Cache != nil {
		unknown = nil
		for _, node := range nodes {
			if p := s.Cache.of(node); p.known() {
				meet(p)
			} else {
				unknown = append(unknown, node)
			}
		}
	}
	enough := s.Enough
	if s.Cache != nil {
		enough *= 2 // so that the next searches find enough in the cache
	}
	for _, node := range unknown {
		if enough > 0 && found >= enough && withoutViolation {
			break
		}
		p := s.evaluate(node)
		meet(&p)
	}
	if best != nil {
		return best, nil
	}
	return nil, verdicts
}

// evaluate checks one node.
func (s *Search) evaluate(node *cluster.Node) cachedNode {
	var p cachedNode
	if c, v := s.victimsOn(node); v != nil {
		p.verdict = v
	} else {
		p.candidate = &c
	}
	if s.Cache != nil {
		s.Cache.put(node, p)
	}
	return p
}

// NoVictims is the verdict for a node without pods with a lower priority.
var NoVictims = &plugin.Verdict{Reasons: []string{"No preemption victims found for incoming pod"}, Lasting: true}

// victimsOn finds the victims on one node.
func (s *Search) victimsOn(node *cluster.Node) (Candidate, *plugin.Verdict) {
	lower := node.Below(s.Pod.Priority)
	if len(lower) == 0 {
		return Candidate{}, NoVictims
	}
	overlay := s.State.Overlay()
	defer overlay.Undo()
	for _, p := range lower {
		overlay.Without(p, node)
	}
	if v := s.Filter(node); v != nil {
		return Candidate{}, v
	}
	slices.SortStableFunc(lower, byImportance)
	c := Candidate{Node: node}
	spare := func(pods []*cluster.Pod) (left int) {
		for _, p := range pods {
			overlay.With(p, node)
			if s.Filter(node) == nil {
				continue
			}
			overlay.Without(p, node)
			c.Victims = append(c.Victims, p)
			left++
		}
		return left
	}
	violating, others, guarded := split(lower, s.Budgets)
	c.guarded = guarded
	c.Violations = spare(violating)
	spare(others)
	slices.SortStableFunc(c.Victims, byImportance)
	return c, nil
}
