package rules

import (
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Part returns a relational rule of this package of which only the filters or only the scores are used.
func Part(rule plugin.Relational, filters, scores bool) plugin.Relational {
	whole, ok := rule.(ruleset.Rule)
	if !ok {
		return rule
	}
	return &part{whole, filters, scores}
}

type part struct {
	ruleset.Rule
	filters, scores bool
}

// Relations leaves out the unused ones.
func (p *part) Relations(shape *cluster.Shape, state *cluster.State) []ruleset.Relation {
	var used []ruleset.Relation
	for _, r := range p.Rule.Relations(shape, state) {
		_, filters := r.(ruleset.Filter)
		_, scores := r.(ruleset.Score)
		if filters && p.filters || scores && p.scores {
			used = append(used, r)
		}
	}
	return used
}

// RequeuesOn is that of the whole rule.
func (p *part) RequeuesOn() cluster.Change {
	if r, ok := p.Rule.(plugin.Requeuer); ok {
		return r.RequeuesOn()
	}
	return ^cluster.Change(0)
}
