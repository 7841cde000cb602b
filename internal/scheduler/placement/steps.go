package placement

import (
	"iter"
	"maps"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Call is a rule that filters or scores nodes.
type Call struct {
	Rule   string
	Scores bool
}

// Calls returns how often the rules that depend on a demand and one node alone were called for a node.
func (e *Engine) Calls() map[Call]uint64 {
	all := maps.Clone(e.calls)
	for _, t := range e.tables {
		t.countInto(all)
	}
	return all
}

// countInto adds the calls for the nodes of a table. A filter is called for the nodes that those before it have
// admitted, and a score for those that all have admitted.
func (t *table) countInto(all map[Call]uint64) {
	called := t.passed
	for i := len(t.filters) - 1; i >= 0; i-- {
		called += t.refused[i]
		all[Call{Rule: t.filters[i].Name()}] += called
	}
	for _, s := range t.plain {
		all[Call{s.Plugin.Name(), true}] += t.passed
	}
	for i := range t.columns {
		all[Call{t.columns[i].score.Name(), true}] += t.passed
	}
}

// Step is one call of a rule for a node.
type Step struct {
	Rule    string
	Scores  bool            // it scores; otherwise it filters
	Verdict *plugin.Verdict // of a filter
}

// Steps calls the rules that depend on a demand and one node alone, one after the other. It is for measuring them: the
// results are not used.
func (e *Engine) Steps(shape *cluster.Shape, node *cluster.Node) iter.Seq[Step] {
	return func(yield func(Step) bool) {
		for _, f := range e.set.Filters {
			if !ruleset.Skips(f, shape.Demand) && !yield(Step{Rule: f.Name(), Verdict: f.Filter(shape.Demand, node)}) {
				return
			}
		}
		for _, s := range e.set.Scores {
			if ruleset.Skips(s.Plugin, shape.Demand) {
				continue
			}
			s.Plugin.Score(shape.Demand, node)
			if !yield(Step{Rule: s.Plugin.Name(), Scores: true}) {
				return
			}
		}
	}
}
