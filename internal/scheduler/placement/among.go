package placement

import (
	"slices"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

var elsewhere = plugin.Verdict{
	Plugin:  "NodeAffinity",
	Reasons: []string{"node(s) didn't satisfy plugin(s) [NodeAffinity]"},
	Lasting: true,
}

// placeAmong places a pod that names its nodes, such as those of a daemon set. Such a demand hardly ever occurs again,
// so nothing is kept for it, and only the named nodes are checked.
func (e *Engine) placeAmong(shape *cluster.Shape, names []string, x *Extra) (*cluster.Node, *Failure) {
	var nodes []*cluster.Node
	for _, name := range names {
		if node, ok := e.state.NodeNamed(name); ok && node.Present {
			nodes = append(nodes, node)
		}
	}
	t := newTable(shape.Demand, e.set)
	t.grow(len(nodes))
	r := newRanking(t, e.relationsFor(shape, len(nodes)))
	r.among = nodes
	r.grow(len(nodes))
	for i, node := range nodes {
		t.evaluate(i, node)
		r.evaluate(i)
	}
	t.countInto(e.calls)
	r.settle()
	for i := range nodes {
		r.totals.set(i, r.total(i))
	}
	i, verdicts := r.bestAdmitted(e, x)
	if verdicts == nil {
		return nodes[i], nil
	}
	reasons := tally{reasons: make(map[string]int)}
	for _, v := range verdicts {
		if v.Broken {
			return nil, broken(v)
		}
		reasons.count(v, 1, e.rules)
	}
	if others := e.state.Nodes() - len(nodes); others > 0 {
		reasons.count(&elsewhere, others, e.rules)
	}
	return nil, reasons.failure()
}

// relationsFor returns relations that have been refreshed with all nodes. If there is at most one node to choose,
// relations that only score are left out.
func (e *Engine) relationsFor(shape *cluster.Shape, choice int) []relation {
	relations := e.relate(shape)
	if choice < 2 {
		relations = slices.DeleteFunc(relations, func(r relation) bool {
			_, filters := r.Relation.(ruleset.Filter)
			return !filters
		})
	}
	if len(relations) > 0 {
		all := everyIndex(e.state.Slots())
		for i := range relations {
			relations[i].Refresh(all)
		}
	}
	return relations
}
