package preemption

import (
	"slices"

	"github.com/millrace/millrace/scheduler/internal/cluster"
	"github.com/millrace/millrace/scheduler/plugin"
)

// Prospects is what nodes have to offer to pods of one priority that ask nodes for the same. It is kept from one search to the
// next, so that a thousand pods that preempt one after the other look at few nodes each. It may be used only where filters
// depend on the node that they are asked about alone. The zero value knows nothing.
type Prospects struct {
	place   uint64 // in the state's log of changes
	budgets Stand
	nodes   []prospect
	offers  []int32 // indexes of nodes that are candidates, or were
	enough  int     // how many were to be compared, when all nodes were looked at last
}

// Stand says how the disruption budgets have changed: Sets counts changes of which pods they protect, Counts all others.
type Stand struct{ Sets, Counts uint64 }

// prospect is a candidate, or the reason why the node is none; neither means that nobody has looked.
type prospect struct {
	candidate *Candidate
	verdict   *plugin.Verdict
}

func (p *prospect) known() bool { return p.candidate != nil || p.verdict != nil }

// Refresh forgets what may not be so any more.
func (k *Prospects) Refresh(state *cluster.State, budgets Stand) {
	changed, ok := state.Since(k.place)
	k.place = state.Head()
	if !ok || budgets.Sets != k.budgets.Sets {
		clear(k.nodes)
		k.offers, changed = nil, nil
	}
	for len(k.nodes) < state.Slots() {
		k.nodes = append(k.nodes, prospect{})
	}
	for _, i := range changed {
		k.nodes[i] = prospect{}
	}
	if budgets != k.budgets {
		k.budgets = budgets
		for i := range k.nodes {
			if c := k.nodes[i].candidate; c != nil && c.guarded {
				k.nodes[i] = prospect{}
			}
		}
	}
	k.offers = slices.DeleteFunc(k.offers, func(i int32) bool { return k.nodes[i].candidate == nil })
}

func (k *Prospects) of(node *cluster.Node) *prospect { return &k.nodes[node.Index] }

func (k *Prospects) put(node *cluster.Node, p prospect) {
	k.nodes[node.Index] = p
	if p.candidate != nil {
		k.offers = append(k.offers, int32(node.Index))
	}
}

// Enough says whether as many candidates are known as are to be compared, so that no node has to be looked at.
func (k *Prospects) Enough() bool {
	return k.enough > 0 && len(k.offers) >= k.enough &&
		slices.ContainsFunc(k.offers, func(i int32) bool { return k.nodes[i].candidate.Violations == 0 })
}

// best returns the best of the candidates that are known. first says where to begin, so that not all pods prefer the same one.
func (k *Prospects) best(first int) *Candidate {
	var best *Candidate
	for at := range k.offers {
		c := k.nodes[k.offers[(at+first)%len(k.offers)]].candidate
		if c != nil && (best == nil || better(c, best)) {
			best = c
		}
	}
	return best
}
