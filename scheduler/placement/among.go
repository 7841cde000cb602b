package placement

import (
	"github.com/millrace/millrace/scheduler/cluster"
	"github.com/millrace/millrace/scheduler/plugin"
)

var elsewhere = plugin.Verdict{
	Plugin:  "NodeAffinity",
	Reasons: []string{"node(s) didn't satisfy plugin(s) [NodeAffinity]"},
	Lasting: true,
}

// placeAmong places a pod that names its nodes, such as those of a daemon set.
// Such a demand is hardly ever met again, so nothing is kept for it.
func (e *Engine) placeAmong(shape *cluster.Shape, names []string) (*cluster.Node, *Failure) {
	t := newTable(shape.Demand, e.set)
	t.grow(e.state.Slots())
	r := newRanking(t, e.relationsFor(shape))
	r.grow(e.state.Slots())
	reasons := tally{reasons: make(map[string]int)}
	var among []int
	for _, name := range names {
		node, ok := e.state.NodeNamed(name)
		if !ok || !node.Present {
			continue
		}
		t.evaluate(node.Index, node)
		r.evaluate(node.Index)
		if v := r.verdicts[node.Index]; v != nil {
			reasons.count(v, e.rules)
		}
		among = append(among, node.Index)
	}
	r.settle()
	for _, i := range among {
		r.totals.set(i, r.total(i))
	}
	if i, ok := r.totals.best(e.random); ok {
		return e.state.Node(i), nil
	}
	for range e.state.Nodes() - len(among) {
		reasons.count(&elsewhere, e.rules)
	}
	return nil, reasons.failure()
}

// relationsFor returns relations that have seen all nodes.
func (e *Engine) relationsFor(shape *cluster.Shape) []relation {
	relations := e.relate(shape)
	for i := range relations {
		relations[i].Refresh(everyIndex(e.state.Slots()))
	}
	return relations
}
