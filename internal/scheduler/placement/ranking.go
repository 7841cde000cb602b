package placement

import (
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// ranking keeps the total of every node for the pods of one shape, or, if they have no relations, of one demand.
//
// The cost of changes: a changed node costs that node; a changed version of a relation that filters, all nodes; of a
// relation that scores, its column; a new lowest or highest score of a column, the totals. The loops over all nodes use
// columns of numbers and never read a node.
type ranking struct {
	table     *table
	relations []relation
	filters   []ruleset.Filter
	among     []*cluster.Node // the nodes of the rows; nil: all, by index

	place      uint64            // the position in the log
	verdicts   []*plugin.Verdict // of the table and of the relations
	columns    []normalised      // the table's columns, then those of the relations' scores
	totals     totals
	zoneCounts zoneCounts // of the zones
	failure    *Failure   // the last failure, while it is still valid
}

// relation is a relation in use.
type relation struct {
	ruleset.Relation
	weight  int64
	epoch   uint64
	filters bool
	column  int // its column plus one; 0: none
}

func newRanking(t *table, relations []relation) *ranking {
	r := &ranking{table: t, relations: relations}
	for c := range t.columns {
		r.columns = append(r.columns, normalised{norm: t.columns[c].norm, weight: t.columns[c].weight})
	}
	for i := range relations {
		rel := &relations[i]
		if f, ok := rel.Relation.(ruleset.Filter); ok {
			r.filters = append(r.filters, f)
			rel.filters = true
		}
		if s, ok := rel.Relation.(ruleset.Score); ok {
			r.columns = append(r.columns, normalised{norm: s, weight: rel.weight, score: s})
			rel.column = len(r.columns)
		}
	}
	return r
}

// refresh updates the ranking; its table must have been updated.
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
	r.failure = nil
	for i := range r.relations {
		rel := &r.relations[i]
		rel.Refresh(changed)
		if epoch := rel.Version(); epoch != rel.epoch {
			rel.epoch = epoch
			all = all || rel.filters
			if rel.column > 0 {
				r.columns[rel.column-1].stale = true
			}
		}
	}
	r.grow(state.Slots())
	if all {
		r.evaluateAll()
	} else {
		for _, i := range changed {
			r.evaluate(int(i))
		}
	}
	if r.settle() || all {
		r.addUpAll()
		return
	}
	for _, i := range changed {
		r.totals.set(int(i), r.total(int(i)))
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

// evaluateAll computes all verdicts again and marks all columns as stale.
func (r *ranking) evaluateAll() {
	for i := range r.verdicts {
		v := r.verdict(i)
		if r.verdicts[i] = v; v == nil {
			r.zoneCounts.addZone(r.table.zones[i])
		}
	}
	for c := range r.columns {
		r.columns[c].stale = true
	}
}

// evaluate computes the verdict and the raw scores of one node.
func (r *ranking) evaluate(i int) {
	was, now := r.verdicts[i] == nil, r.verdict(i)
	r.verdicts[i] = now
	if now == nil {
		r.zoneCounts.addZone(r.table.zones[i])
	}
	for c := range r.columns {
		column := &r.columns[c]
		if column.stale {
			continue
		}
		if was {
			column.remove(i)
		}
		if now == nil {
			column.add(i, r.raw(c, i))
		}
	}
}

func (r *ranking) verdict(i int) *plugin.Verdict {
	if v := r.table.verdicts[i]; v != nil {
		return v
	}
	for _, f := range r.filters {
		if v := f.Filter(r.node(i)); v != nil {
			return v
		}
	}
	return nil
}

func (r *ranking) raw(c, i int) int64 {
	if s := r.columns[c].score; s != nil {
		return s.Score(r.node(i))
	}
	return r.table.columns[c].raw[i]
}

// node returns the index of the node in row i.
func (r *ranking) node(i int) int {
	if r.among == nil {
		return i
	}
	return r.among[i].Index
}

// settle computes stale columns and updates the lowest and highest scores. It reports whether totals of other nodes
// change by that.
func (r *ranking) settle() bool {
	moved := false
	for c := range r.columns {
		column := &r.columns[c]
		if column.stale {
			column.stale = false
			r.renew(c)
			moved = true
		}
		if column.settle(r.verdicts) {
			moved = true
		}
	}
	return moved
}

// renew reads all raw scores of a column.
func (r *ranking) renew(c int) {
	column := &r.columns[c]
	column.atLow, column.atHigh = 0, 0
	if column.score == nil {
		copy(column.values, r.table.columns[c].raw)
		return
	}
	for i, v := range r.verdicts {
		if v == nil {
			column.values[i] = column.score.Score(i)
		}
	}
}

func (r *ranking) addUpAll() {
	sums := r.totals.values
	copy(sums, r.table.fixed)
	var same int64
	for c := range r.columns {
		if r.columns[c].constant {
			same += r.columns[c].same
		} else {
			r.columns[c].addTo(sums, r.verdicts)
		}
	}
	for i, v := range r.verdicts {
		if v != nil {
			sums[i] = infeasible
		} else {
			sums[i] = (sums[i]+same)<<tieBits | r.table.spare[i]
		}
	}
	r.totals.settle()
}

func (r *ranking) total(i int) int64 {
	if r.verdicts[i] != nil {
		return infeasible
	}
	sum := r.table.fixed[i]
	for c := range r.columns {
		sum += r.columns[c].weighted(i)
	}
	return sum<<tieBits | r.table.spare[i]
}
