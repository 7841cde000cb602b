package preemption

import (
	"slices"

	"github.com/millrace/millrace/scheduler/internal/cluster"
	"github.com/millrace/millrace/scheduler/plugin"
)

// Search looks for a node where a pod can be placed when others leave.
type Search struct {
	State   *cluster.State
	Pod     *cluster.Pod
	Budgets []Budget
	// Ask returns nil if all filters admit the pod to a node as the state is now, overlay included.
	Ask func(*cluster.Node) *plugin.Verdict
	// Enough is how many nodes are compared. 0 means all.
	Enough int
	// Kept is what earlier searches for the same have found. nil: nothing is kept.
	Kept *Prospects

	met func(*Candidate) // is told each candidate; nil: nobody
}

// Candidate is a node, and the pods that would have to leave it.
type Candidate struct {
	Node    *cluster.Node
	Victims []*cluster.Pod // the most important one first
	// Violations is how many of them their disruption budgets protect.
	Violations int

	guarded bool // whether one of the pods that could leave has a budget
}

// Run looks at nodes that refuse the pod because of the pods there, and returns the best one; nil if there is none. Then the
// verdicts say why, one for each node.
func (s *Search) Run(nodes []*cluster.Node) (*Candidate, []*plugin.Verdict) {
	if s.Kept != nil {
		s.Kept.enough = s.Enough
	}
	for {
		best, verdicts := s.compare(nodes)
		if best == nil || s.Kept == nil {
			return best, verdicts
		}
		// What is kept need not show the newest versions of the pods.
		now, v := s.on(best.Node)
		if v == nil {
			return &now, nil
		}
		s.Kept.put(best.Node, prospect{verdict: v})
	}
}

// Again returns the best of the candidates that earlier searches have found; nil if there is none any more. first says where to
// begin among equals.
func (s *Search) Again(first int) *Candidate {
	for {
		best := s.Kept.best(first)
		if best == nil {
			return nil
		}
		now, v := s.on(best.Node)
		if v == nil {
			return &now
		}
		s.Kept.put(best.Node, prospect{verdict: v})
	}
}

// All looks at nodes as Run does, and returns all candidates that it compares.
func (s *Search) All(nodes []*cluster.Node) ([]Candidate, []*plugin.Verdict) {
	var found []Candidate
	s.Kept, s.met = nil, func(c *Candidate) { found = append(found, *c) }
	_, verdicts := s.compare(nodes)
	return found, verdicts
}

// Best is the one of several candidates that Run would return; nil of none.
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

// compare returns the best candidate. Nodes of which it is known what they have to offer come first.
func (s *Search) compare(nodes []*cluster.Node) (best *Candidate, verdicts []*plugin.Verdict) {
	found := 0
	gentle := false // whether one of those found violates no budget
	meet := func(p *prospect) {
		if p.candidate == nil {
			verdicts = append(verdicts, p.verdict)
			return
		}
		if s.met != nil {
			s.met(p.candidate)
		}
		found++
		gentle = gentle || p.candidate.Violations == 0
		if best == nil || better(p.candidate, best) {
			best = p.candidate
		}
	}
	unknown := nodes
	if s.Kept != nil {
		unknown = nil
		for _, node := range nodes {
			if p := s.Kept.of(node); p.known() {
				meet(p)
			} else {
				unknown = append(unknown, node)
			}
		}
	}
	enough := s.Enough
	if s.Kept != nil {
		enough *= 2 // so that the next searches need not look at any node
	}
	for _, node := range unknown {
		if enough > 0 && found >= enough && gentle {
			break
		}
		p := s.look(node)
		meet(&p)
	}
	if best != nil {
		return best, nil
	}
	return nil, verdicts
}

// look finds out what a node has to offer.
func (s *Search) look(node *cluster.Node) prospect {
	var p prospect
	if c, v := s.on(node); v != nil {
		p.verdict = v
	} else {
		p.candidate = &c
	}
	if s.Kept != nil {
		s.Kept.put(node, p)
	}
	return p
}

// NoVictims is the verdict on a node where no pod has a lower priority.
var NoVictims = &plugin.Verdict{Reasons: []string{"No preemption victims found for incoming pod"}, Lasting: true}

// on finds the victims on one node.
func (s *Search) on(node *cluster.Node) (Candidate, *plugin.Verdict) {
	lower := node.Below(s.Pod.Priority)
	if len(lower) == 0 {
		return Candidate{}, NoVictims
	}
	overlay := s.State.Overlay()
	defer overlay.Undo()
	for _, p := range lower {
		overlay.Without(p, node)
	}
	if v := s.Ask(node); v != nil {
		return Candidate{}, v
	}
	slices.SortStableFunc(lower, byImportance)
	c := Candidate{Node: node}
	spare := func(pods []*cluster.Pod) (left int) {
		for _, p := range pods {
			overlay.With(p, node)
			if s.Ask(node) == nil {
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
