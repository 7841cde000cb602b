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
}

// Candidate is a node, and the pods that would have to leave it.
type Candidate struct {
	Node    *cluster.Node
	Victims []*cluster.Pod // the most important one first
	// Violations is how many of them their disruption budgets protect.
	Violations int
}

// Run looks at nodes that refuse the pod because of the pods there, and returns the best one; nil if there is none. Then the
// verdicts say why, one for each node.
func (s *Search) Run(nodes []*cluster.Node) (*Candidate, []*plugin.Verdict) {
	var found []Candidate
	var verdicts []*plugin.Verdict
	gentle := false // whether one of those found violates no budget
	for _, node := range nodes {
		c, v := s.on(node)
		if v != nil {
			verdicts = append(verdicts, v)
			continue
		}
		found = append(found, c)
		gentle = gentle || c.Violations == 0
		if s.Enough > 0 && len(found) >= s.Enough && gentle {
			break
		}
	}
	if len(found) == 0 {
		return nil, verdicts
	}
	best := &found[0]
	for i := range found[1:] {
		if better(&found[i+1], best) {
			best = &found[i+1]
		}
	}
	return best, nil
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
	violating, others := split(lower, s.Budgets)
	c.Violations = spare(violating)
	spare(others)
	slices.SortStableFunc(c.Victims, byImportance)
	return c, nil
}
