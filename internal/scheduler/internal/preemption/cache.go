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

func (p *cachedNode) known() bool { return p.candidate != nil || p.verdict != nil }

// Refresh drops results that may have changed.
func (k *CandidateCache) Refresh(state *cluster.State, budgets BudgetVersion) {
	changed, ok := state.Since(k.place)
	k.place = state.Head()
	if !ok || budgets.Sets != k.budgets.Sets {
		clear(k.nodes)
		k.candidates, changed = nil, nil
	}
	for len(k.nodes) < state.Slots() {
		k.nodes = append(k.nodes, cachedNode{})
	}
	for _, i := range changed {
		k.nodes[i] = cachedNode{}
	}
	if budgets != k.budgets {
		k.budgets = budgets
		for i := range k.nodes {
			if c := k.nodes[i].candidate; c != nil && c.guarded {
				k.nodes[i] = cachedNode{}
			}
		}
	}
	k.candidates = slices.DeleteFunc(k.candidates, func(i int32) bool { return k.nodes[i].candidate == nil })
}

func (k *CandidateCache) of(node *cluster.Node) *cachedNode { return &k.nodes[node.Index] }

func (k *CandidateCache) put(node *cluster.Node, p cachedNode) {
	k.nodes[node.Index] = p
	if p.candidate != nil {
		k.candidates = append(k.candidates, int32(node.Index))
	}
}

// Enough reports whether there are as many candidates as are to be compared, so that no node has to be checked.
func (k *CandidateCache) Enough() bool {
	return k.enough > 0 && len(k.candidates) >= k.enough &&
		slices.ContainsFunc(k.candidates, func(i int32) bool { return k.nodes[i].candidate.Violations == 0 })
}

// best returns the best cached candidate. It starts at first, so that not all pods prefer the same one.
func (k *CandidateCache) best(first int) *Candidate {
	var best *Candidate
	for at := range k.candidates {
		c := k.nodes[k.candidates[(at+first)%len(k.candidates)]].candidate
		if c != nil && (best == nil || better(c, best)) {
			best = c
		}
	}
	return best
}
