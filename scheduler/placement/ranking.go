package placement

import (
	"github.com/millrace/millrace/scheduler/cluster"
	"github.com/millrace/millrace/scheduler/plugin"
)

// ranking keeps the total of every node for the pods of one shape, or, if they
// have no relations, of one demand.
type ranking struct {
	table     *table
	relations []relation
	filters   []plugin.RelationFilter
	scores    []plugin.RelationScore

	place    uint64            // in the log
	verdicts []*plugin.Verdict // of the table and of the relations
	columns  []normalised      // for the table's columns, then for the relations' scores
	totals   totals
	failure  *Failure // what was said when no node would do, while that is still so
	used     uint64
}

// relation is a relation in use.
type relation struct {
	plugin.Relation
	weight int64
	epoch  uint64
}

func newRanking(t *table, relations []relation) *ranking {
	r := &ranking{table: t, relations: relations}
	for _, c := range t.columns {
		r.columns = append(r.columns, normalised{norm: c.norm, weight: c.weight})
	}
	for _, rel := range relations {
		if f, ok := rel.Relation.(plugin.RelationFilter); ok {
			r.filters = append(r.filters, f)
		}
		if s, ok := rel.Relation.(plugin.RelationScore); ok {
			r.scores = append(r.scores, s)
			r.columns = append(r.columns, normalised{norm: s, weight: rel.weight})
		}
	}
	return r
}

// refresh takes the ranking up to date; its table must be so already.
func (r *ranking) refresh(state *cluster.State) {
	changed, ok := state.Since(r.place)
	r.place = state.Head()
	all := !ok || r.verdicts == nil
	if all {
		changed = everyIndex(state.Slots())
	}
	if len(changed) == 0 {
		return
	}
	for i := range r.relations {
		rel := &r.relations[i]
		rel.Refresh(changed)
		if epoch := rel.Epoch(); epoch != rel.epoch {
			rel.epoch, all = epoch, true
		}
	}
	r.failure = nil
	r.grow(state.Slots())
	if all {
		r.evaluateAll(state)
		return
	}
	for _, i := range changed {
		r.evaluate(state, int(i))
	}
	if r.settle() {
		r.addUpAll(state)
		return
	}
	for _, i := range changed {
		r.totals.set(int(i), r.total(state, int(i)))
	}
}

func everyIndex(slots int) []int32 {
	all := make([]int32, slots)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

func (r *ranking) grow(slots int) {
	known := len(r.verdicts)
	r.verdicts = grown(r.verdicts, slots)
	for i := known; i < slots; i++ {
		r.verdicts[i] = &absent
	}
	for c := range r.columns {
		r.columns[c].values = grown(r.columns[c].values, slots)
	}
	r.totals.grow(slots)
}

func (r *ranking) evaluateAll(state *cluster.State) {
	for c := range r.columns {
		r.columns[c].reset()
	}
	for i := range r.verdicts {
		r.verdicts[i] = &absent
		r.evaluate(state, i)
	}
	r.settle()
	r.addUpAll(state)
}

// evaluate renews the verdict and the raw scores of one node.
func (r *ranking) evaluate(state *cluster.State, i int) {
	node := state.Node(i)
	was, now := r.verdicts[i] == nil, r.verdict(i, node)
	r.verdicts[i] = now
	for c := range r.columns {
		column := &r.columns[c]
		if was {
			column.remove(i)
		}
		if now == nil {
			column.add(i, r.raw(c, i, node))
		}
	}
}

func (r *ranking) verdict(i int, node *cluster.Node) *plugin.Verdict {
	if v := r.table.verdicts[i]; v != nil {
		return v
	}
	for _, f := range r.filters {
		if v := f.Filter(node); v != nil {
			return v
		}
	}
	return nil
}

func (r *ranking) raw(c, i int, node *cluster.Node) int64 {
	if own := len(r.table.columns); c >= own {
		return r.scores[c-own].Score(node)
	}
	return r.table.columns[c].raw[i]
}

// settle makes the bounds of all columns right and says whether one has moved,
// so that all totals change.
func (r *ranking) settle() bool {
	moved := false
	for c := range r.columns {
		if r.columns[c].settle(r.verdicts) {
			moved = true
		}
	}
	return moved
}

func (r *ranking) addUpAll(state *cluster.State) {
	for i := range r.verdicts {
		r.totals.values[i] = r.total(state, i)
	}
	r.totals.settle()
}

// tieBits leave room below a total for the number of pods, so that among equals the emptiest node comes first.
const tieBits = 20

func (r *ranking) total(state *cluster.State, i int) int64 {
	if r.verdicts[i] != nil {
		return infeasible
	}
	sum := r.table.fixed[i]
	for c := range r.columns {
		sum += r.columns[c].score(i)
	}
	const most = 1<<tieBits - 1
	return sum<<tieBits | (most - min(int64(state.Node(i).Pods), most))
}
