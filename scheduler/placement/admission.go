package placement

import (
	"slices"

	"github.com/millrace/millrace/scheduler/internal/cluster"
	"github.com/millrace/millrace/scheduler/plugin"
)

// Admission says whether one pod may go to a node that the rules admit its shape to, and otherwise why not.
type Admission func(*cluster.Node) *plugin.Verdict

// Extra is what is asked for one pod besides what its shape asks for. The zero value is nothing.
type Extra struct {
	// Before is what filters say that are named before those that depend on other pods, After what others say.
	Before, After Admission
	// Score is added to the total of a node. If it is set, all nodes that are admitted are compared.
	Score func(*cluster.Node) int64
}

func (x *Extra) none() bool { return x.Before == nil && x.After == nil && x.Score == nil }

// Verdict says why the node is not admitted, or nil.
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

// admitted returns the best node that is admitted.
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

// refusal is a node that is out of the ranking for one search.
type refusal struct {
	row     int
	total   int64
	verdict *plugin.Verdict
}

// bestAdmitted returns the row of the best node that is admitted; if there is none, why each node was refused. A node that is
// refused is out of the ranking only until the end of the search.
func (r *ranking) bestAdmitted(e *Engine, x *Extra) (int, []*plugin.Verdict) {
	if x.Score != nil {
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
		if v == nil {
			return i, nil
		}
		refused = append(refused, refusal{i, r.totals.values[i], v})
		r.totals.set(i, infeasible)
	}
}

// bestScored asks about all nodes, as the score may make any of them the best.
func (r *ranking) bestScored(e *Engine, x *Extra) (int, []*plugin.Verdict) {
	var refused []refusal
	best, total, equals := -1, int64(infeasible), 0
	for i, value := range r.totals.values {
		if value == infeasible {
			continue
		}
		node := r.nodeIn(e, i)
		if v := x.Verdict(node); v != nil {
			refused = append(refused, refusal{i, value, v})
			continue
		}
		value += x.Score(node) << tieBits
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
	if best < 0 {
		return 0, r.explained(e, x, refused)
	}
	return best, nil
}

// explained is why each node was refused: by the rule that stands first.
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

// before is what x says of a node that a rule refuses which stands behind it.
func (r *ranking) before(e *Engine, x *Extra, i int) *plugin.Verdict {
	if x.Before == nil || r.verdicts[i] == nil || r.table.verdicts[i] != nil {
		return nil
	}
	return x.Before(r.nodeIn(e, i))
}

// nodeIn returns the node in row i.
func (r *ranking) nodeIn(e *Engine, i int) *cluster.Node { return e.state.Node(r.node(i)) }
