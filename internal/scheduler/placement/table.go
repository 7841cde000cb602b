package placement

import (
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// table keeps the results of filters and scores for every node and one demand.
type table struct {
	demand  *cluster.Demand
	filters []plugin.Filter
	plain   []plugin.Weighted[plugin.Score] // scores without normalization
	columns []column                        // scores with normalization

	place    uint64 // the position in the log
	verdicts []*plugin.Verdict
	fixed    []int64 // the weighted sum of the plain scores
	zones    []int   // the zone of each node
	spare    []int64 // the maximum number of pods that can be counted, less the node's pods: a rank among equal nodes

	alone *ranking // for shapes without relations
	used  uint64

	passed  uint64   // how many nodes all filters have admitted
	refused []uint64 // how many nodes each filter has refused
}

// tieBits are the bits below a total for the number of pods, so that among equal nodes the emptiest is first.
const (
	tieBits  = 20
	mostPods = 1<<tieBits - 1
)

// column has one raw score for every node.
type column struct {
	score  plugin.Score
	norm   plugin.Normalizer
	weight int64
	raw    []int64
}

var absent = plugin.Verdict{}

func newTable(demand *cluster.Demand, set *ruleset.Set) *table {
	t := &table{demand: demand, filters: filtersFor(demand, set)}
	t.refused = make([]uint64, len(t.filters))
	for _, s := range set.Scores {
		if ruleset.Skips(s.Plugin, demand) {
			continue
		}
		if norm, ok := s.Plugin.(plugin.Normalizer); ok {
			t.columns = append(t.columns, column{score: s.Plugin, norm: norm, weight: s.Weight})
		} else {
			t.plain = append(t.plain, s)
		}
	}
	return t
}

// filtersFor returns the filters that do not skip a demand.
func filtersFor(demand *cluster.Demand, set *ruleset.Set) []plugin.Filter {
	var filters []plugin.Filter
	for _, f := range set.Filters {
		if !ruleset.Skips(f, demand) {
			filters = append(filters, f)
		}
	}
	return filters
}

// refresh updates the table.
func (t *table) refresh(state *cluster.State) {
	changed, ok := state.Since(t.place)
	t.place = state.Head()
	if !ok || t.verdicts == nil {
		t.grow(state.Slots())
		for i := range t.verdicts {
			t.evaluate(i, state.Node(i))
		}
		return
	}
	t.grow(state.Slots())
	for _, i := range changed {
		t.evaluate(int(i), state.Node(int(i)))
	}
}

func (t *table) grow(slots int) {
	t.verdicts = grown(t.verdicts, slots)
	t.fixed = grown(t.fixed, slots)
	t.zones = grown(t.zones, slots)
	t.spare = grown(t.spare, slots)
	for i := range t.columns {
		t.columns[i].raw = grown(t.columns[i].raw, slots)
	}
}

// grown returns a longer slice, with capacity for a few more nodes.
func grown[T any](s []T, length int) []T {
	if length <= cap(s) {
		return s[:length]
	}
	longer := make([]T, length, length+length/8)
	copy(longer, s)
	return longer
}

func (t *table) evaluate(i int, node *cluster.Node) {
	t.verdicts[i] = t.filter(node)
	if t.verdicts[i] != nil {
		return
	}
	t.zones[i] = node.Zone
	t.spare[i] = mostPods - min(int64(node.Pods), mostPods)
	t.fixed[i] = 0
	for _, s := range t.plain {
		t.fixed[i] += s.Weight * s.Plugin.Score(t.demand, node)
	}
	for c := range t.columns {
		t.columns[c].raw[i] = t.columns[c].score.Score(t.demand, node)
	}
}

func (t *table) filter(node *cluster.Node) *plugin.Verdict {
	if node == nil || !node.Present {
		return &absent
	}
	for i, f := range t.filters {
		if v := f.Filter(t.demand, node); v != nil {
			t.refused[i]++
			return v
		}
	}
	t.passed++
	return nil
}
