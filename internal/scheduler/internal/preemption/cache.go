package preemption

import (
	"slices"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// CandidateCache keeps the candidates of a search for later pods with the same priority and the same demand, so that a
// thousand pods that preempt one after the other check few nodes each. It may only be used if all filters depend on the
// checked node alone. The zero value is empty.
type CandidateCache struct {
	place      uint64 // the position in the state's log of changes
	budgets    BudgetVersion
	nodes      []cachedNode
	candidates []int32 // indexes of nodes that are candidates, or were
	enough     int     // the number of candidates to compare when all nodes were last checked
}

// BudgetVersion changes with the disruption budgets: Sets counts changes of the pods that they select, Counts all
// others.
type BudgetVersion struct{ Sets, Counts uint64 }

// cachedNode is a candidate, or the reason why the node is none. If both are nil the node has not been checked.
type cachedNode struct {
	candidate *Candidate
	verdict   *plugin.Verdict
}

func (c *cachedNode) known() bool { return c.candidate != nil || c.verdict != nil }

// Refresh drops results that may have changed.
func (cc *CandidateCache) Refresh(state *cluster.State, budgets BudgetVersion) {
	changed, ok := state.Since(cc.place)
	cc.place = state.Head()
	if !ok || budgets.Sets != cc.budgets.Sets {
		clear(cc.nodes)
		cc.candidates, changed = nil, nil
	}
	for len(cc.nodes) < state.Slots() {
		cc.nodes = append(cc.nodes, cachedNode{})
	}
	for _, i := range changed {
		cc.nodes[i] = cachedNode{}
	}
	if budgets != cc.budgets {
		cc.budgets = budgets
		for i := range cc.nodes {
			if c := cc.nodes[i].candidate; c != nil && c.guarded {
				cc.nodes[i] = cachedNode{}
			}
		}
	}
	cc.candidates = slices.DeleteFunc(cc.candidates, func(i int32) bool { return cc.nodes[i].candidate == nil })
}

func (cc *CandidateCache) of(node *cluster.Node) *cachedNode { return &cc.nodes[node.Index] }

func (cc *CandidateCache) put(node *cluster.Node, p cachedNode) {
	cc.nodes[node.Index] = p
	if p.candidate != nil {
		cc.candidates = append(cc.candidates, int32(node.Index))
	}
}

// Enough reports whether there are as many candidates as are to be compared, so that no node has to be checked.
func (cc *CandidateCache) Enough() bool {
	return cc.enough > 0 && len(cc.candidates) >= cc.enough &&
		slices.ContainsFunc(cc.candidates, func(i int32) bool { return cc.nodes[i].candidate.Violations == 0 })
}

// best returns the best cached candidate. It starts at first, so that not all pods prefer the same one.
func (cc *CandidateCache) best(first int) *Candidate {
	var best *Candidate
	for at := range cc.candidates {
		c := cc.nodes[cc.candidates[(at+first)%len(cc.candidates)]].candidate
		if c != nil && (best == nil || better(c, best)) {
			best = c
		}
	}
	return best
}
