package placement

import (
	"slices"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Admission returns nil if one pod may go to a node, and otherwise the reason. It is only called for nodes to which the
// rules admit pods of its shape.
type Admission func(*cluster.Node) *plugin.Verdict

// Extra has requirements of one pod besides those of its shape. The zero value has none.
type Extra struct {
	// Before is a filter whose reason is reported before those of filters that depend on other pods, After one whose
	// reason is reported after them.
	Before, After Admission
	// Scores are added to the total of a node. If there are any, all admitted nodes are compared.
	Scores []Score
	// Doubtful tells on which nodes a filter may have an error. They are checked before all others, because an error on
	// one node means that there is none for the pod. Nil means that there are no such nodes.
	Doubtful func(*cluster.Node) bool
}

func (x *Extra) none() bool { return x.Before == nil && x.After == nil && len(x.Scores) == 0 }

// Verdict returns why the node is not admitted, or nil.
func (x *Extra) Verdict(node *cluster.Node) *plugin.Verdict {
	for _, admits := range []Admission{x.Before, x.After} {
		if admits == nil {
			continue
		}
		if v := admits(node); v != nil {
			return v
		}
	}
	return nil
}

// admitted returns the best admitted node.
func (e *Engine) admitted(r *ranking, x *Extra) (*cluster.Node, *Failure) {
	if _, count := r.totals.best(); count == 0 && x.Before == nil && r.among == nil {
		return nil, r.refusal(e)
	}
	i, verdicts := r.bestAdmitted(e, x)
	if verdicts == nil {
		return e.state.Node(i), nil
	}
	return nil, e.explain(verdicts)
}

// refusal is a node that is excluded from the ranking for one search.
type refusal struct {
	row     int
	total   int64
	verdict *plugin.Verdict
}

// bestAdmitted returns the row of the best admitted node; if there is none, why each node was refused. A refused node
// is excluded from the ranking until the end of the search. A filter's error ends the search.
func (r *ranking) bestAdmitted(e *Engine, x *Extra) (int, []*plugin.Verdict) {
	if v := r.broken(e, x); v != nil {
		return 0, []*plugin.Verdict{v}
	}
	if len(x.Scores) > 0 {
		return r.bestScored(e, x)
	}
	var refused []refusal
	defer func() {
		for _, f := range refused {
			r.totals.set(f.row, f.total)
		}
	}()
	for {
		i, ok := r.best(e.random)
		if !ok {
			return 0, r.explained(e, x, refused)
		}
		v := x.Verdict(r.nodeIn(e, i))
		switch {
		case v == nil:
			return i, nil
		case v.Broken:
			return 0, []*plugin.Verdict{v}
		}
		refused = append(refused, refusal{i, r.totals.values[i], v})
		r.totals.set(i, infeasible)
	}
}

// broken returns a filter's error on a doubtful node, or nil.
func (r *ranking) broken(e *Engine, x *Extra) *plugin.Verdict {
	if x.Doubtful == nil {
		return nil
	}
	for i, value := range r.totals.values {
		if value == infeasible {
			continue
		}
		if node := r.nodeIn(e, i); x.Doubtful(node) {
			if v := x.Verdict(node); v != nil && v.Broken {
				return v
			}
		}
	}
	return nil
}

// bestScored checks all nodes, because the scores may make any of them the best.
func (r *ranking) bestScored(e *Engine, x *Extra) (int, []*plugin.Verdict) {
	var refused []refusal
	var rows []int
	var nodes []*cluster.Node
	for i, value := range r.totals.values {
		if value == infeasible {
			continue
		}
		node := r.nodeIn(e, i)
		if v := x.Verdict(node); v != nil {
			if v.Broken {
				return 0, []*plugin.Verdict{v}
			}
			refused = append(refused, refusal{i, value, v})
			continue
		}
		rows, nodes = append(rows, i), append(nodes, node)
	}
	if len(rows) == 0 {
		return 0, r.explained(e, x, refused)
	}
	best, total, equals := -1, int64(infeasible), 0
	for n, rating := range x.rate(nodes) {
		i := rows[n]
		value := r.totals.values[i] + rating<<tieBits
		switch {
		case value < total:
			continue
		case value > total:
			equals = 0
		}
		if equals++; e.random.IntN(equals) == 0 {
			best = i
		}
		total = value
	}
	return best, nil
}

// explained returns for each node the reason of the first rule that refused it.
func (r *ranking) explained(e *Engine, x *Extra, refused []refusal) []*plugin.Verdict {
	verdicts := append(make([]*plugin.Verdict, 0, len(r.verdicts)), r.verdicts...)
	if x.Before != nil {
		for i := range verdicts {
			if v := r.before(e, x, i); v != nil {
				verdicts[i] = v
			}
		}
	}
	for _, f := range refused {
		verdicts[f.row] = f.verdict
	}
	return slices.Clip(verdicts)
}

// before returns the reason of x.Before for a node that a later rule refuses.
func (r *ranking) before(e *Engine, x *Extra, i int) *plugin.Verdict {
	if x.Before == nil || r.verdicts[i] == nil || r.table.verdicts[i] != nil {
		return nil
	}
	return x.Before(r.nodeIn(e, i))
}

// nodeIn returns the node in row i.
func (r *ranking) nodeIn(e *Engine, i int) *cluster.Node { return e.state.Node(r.node(i)) }
