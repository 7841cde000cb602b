package placement

import (
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Trial asks the filters about single nodes in a state that may have an overlay. It is valid as long as nothing changes
// but the pods of the checked node, and those are restored before the next node is checked.
type Trial struct {
	demand    *cluster.Demand
	filters   []plugin.Filter
	relations []filtering
	last      int32 // the last checked node: its state may have been an overlay
}

// filtering is a relation that filters.
type filtering struct {
	ruleset.Relation
	ruleset.Filter
}

// Try begins a trial for pods of a shape. Its results are not kept.
func (e *Engine) Try(shape *cluster.Shape) *Trial {
	t := &Trial{demand: shape.Demand, filters: filtersFor(shape.Demand, e.set)}
	for _, r := range e.relate(shape) {
		f, ok := r.Relation.(ruleset.Filter)
		if !ok {
			continue
		}
		r.Refresh(everyIndex(e.state.Slots()))
		t.relations = append(t.relations, filtering{r.Relation, f})
	}
	return t
}

// Verdict returns nil if the filters admit the node, and otherwise the reason.
func (t *Trial) Verdict(node *cluster.Node) *plugin.Verdict {
	for _, f := range t.filters {
		if v := f.Filter(t.demand, node); v != nil {
			return v
		}
	}
	changed := []int32{t.last, int32(node.Index)}
	t.last = int32(node.Index)
	for i := range t.relations {
		r := &t.relations[i]
		r.Refresh(changed)
		if v := r.Filter.Filter(node.Index); v != nil {
			return v
		}
	}
	return nil
}

// Crowded returns the nodes that refuse a pod because of their pods: preemption may help there.
func (e *Engine) Crowded(shape *cluster.Shape, x Extra) []*cluster.Node {
	var nodes []*cluster.Node
	if names, named := shape.Match.Names(); named {
		trial := e.Try(shape)
		for _, name := range names {
			node, ok := e.state.NodeNamed(name)
			if !ok || !node.Present {
				continue
			}
			if v := trial.Verdict(node); v != nil && !v.Lasting {
				nodes = append(nodes, node)
			} else if v == nil && refusesForNow(&x, node) {
				nodes = append(nodes, node)
			}
		}
		return nodes
	}
	r := e.ranking(shape)
	r.refresh(e.state)
	for i, v := range r.verdicts {
		switch {
		case v == &absent, v != nil && v.Lasting:
		case v == nil:
			if node := e.state.Node(i); refusesForNow(&x, node) {
				nodes = append(nodes, node)
			}
		default:
			if first := r.before(e, &x, i); first == nil || !first.Lasting {
				nodes = append(nodes, e.state.Node(i))
			}
		}
	}
	return nodes
}

// refusesForNow reports whether a node is refused because of its pods.
func refusesForNow(x *Extra, node *cluster.Node) bool {
	v := x.Verdict(node)
	return v != nil && !v.Lasting
}
