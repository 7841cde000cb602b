package placement

import (
	"slices"

	"github.com/millrace/millrace/scheduler/internal/cluster"
	"github.com/millrace/millrace/scheduler/plugin"
)

// Admission says whether one pod may go to a node that the rules admit its shape to, and otherwise why not.
type Admission func(*cluster.Node) *plugin.Verdict

// admitted returns the best node that is admitted.
func (e *Engine) admitted(r *ranking, admits Admission) (*cluster.Node, *Failure) {
	i, verdicts := r.bestAdmitted(e, admits)
	if verdicts == nil {
		return e.state.Node(i), nil
	}
	return nil, e.explain(verdicts)
}

// bestAdmitted returns the row of the best node that is admitted; if there is none, why each node was refused. A node that is
// refused is out of the ranking only until the end of the search.
func (r *ranking) bestAdmitted(e *Engine, admits Admission) (int, []*plugin.Verdict) {
	type refusal struct {
		row     int
		total   int64
		verdict *plugin.Verdict
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
			break
		}
		if admits == nil {
			return i, nil
		}
		v := admits(e.state.Node(r.node(i)))
		if v == nil {
			return i, nil
		}
		refused = append(refused, refusal{i, r.totals.values[i], v})
		r.totals.set(i, infeasible)
	}
	verdicts := append(make([]*plugin.Verdict, 0, len(r.verdicts)), r.verdicts...)
	for _, f := range refused {
		verdicts[f.row] = f.verdict
	}
	return 0, slices.Clip(verdicts)
}
