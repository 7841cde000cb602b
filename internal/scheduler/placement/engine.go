package placement

import (
	"math/rand/v2"
	"slices"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Engine places pods by one set of rules. It is not safe for concurrent use, and the state must not change while it
// works.
type Engine struct {
	state  *cluster.State
	set    *ruleset.Set
	rules  map[string]ruleset.Bits
	random *rand.Rand

	tables  map[*cluster.Demand]*table
	related map[*cluster.Shape]*class
	plain   map[*cluster.Shape]*class // shapes without relations: almost nothing is kept for them
	clock   uint64                    // counts placements, to find what was used least recently
	calls   map[Call]uint64           // the calls of rules for tables that are not kept
}

// class has the results that are kept for a shape.
type class struct {
	stands    []uint64
	relations []relation
	ranking   *ranking // nil without relations
	used      uint64
}

// New returns an engine.
func New(state *cluster.State, set *ruleset.Set, random *rand.Rand) *Engine {
	return &Engine{
		state: state, set: set, rules: set.Named(), random: random,
		tables:  make(map[*cluster.Demand]*table),
		related: make(map[*cluster.Shape]*class),
		plain:   make(map[*cluster.Shape]*class),
		calls:   make(map[Call]uint64),
	}
}

// Place returns the best node for a pod of this shape, or why there is none.
func (e *Engine) Place(shape *cluster.Shape) (*cluster.Node, *Failure) {
	return e.PlaceWhere(shape, Extra{})
}

// PlaceWhere is Place for one pod with additional requirements. Without a Score these are checked for the nodes that
// pass the rules, best first, until one is admitted.
func (e *Engine) PlaceWhere(shape *cluster.Shape, x Extra) (*cluster.Node, *Failure) {
	if e.state.Nodes() == 0 {
		return nil, noNodes
	}
	e.clock++
	if names, named := shape.Match.Names(); named {
		return e.placeAmong(shape, names, &x)
	}
	r := e.ranking(shape)
	r.refresh(e.state)
	if !x.none() {
		return e.admitted(r, &x)
	}
	if i, ok := r.best(e.random); ok {
		return e.state.Node(i), nil
	}
	return nil, r.refusal(e)
}

// refusal returns why no node is suitable. It is kept until something changes.
func (r *ranking) refusal(e *Engine) *Failure {
	if r.failure == nil {
		r.failure = e.explain(r.verdicts)
	}
	return r.failure
}

// Related reports whether a filter for pods of this shape depends on pods elsewhere.
func (e *Engine) Related(shape *cluster.Shape) bool {
	return slices.ContainsFunc(e.class(shape).relations, func(r relation) bool {
		_, filters := r.Relation.(ruleset.Filter)
		return filters
	})
}

// Verdict returns why the rules refuse a node to pods of this shape, or nil.
func (e *Engine) Verdict(shape *cluster.Shape, node *cluster.Node) *plugin.Verdict {
	if _, named := shape.Match.Names(); named {
		return e.Try(shape).Verdict(node)
	}
	r := e.ranking(shape)
	r.refresh(e.state)
	return r.verdicts[node.Index]
}

// Fits reports whether the filters that depend on a node alone admit it, including the overlay.
func (e *Engine) Fits(shape *cluster.Shape, node *cluster.Node) bool {
	for _, f := range e.set.Filters {
		if !ruleset.Skips(f, shape.Demand) && f.Filter(shape.Demand, node) != nil {
			return false
		}
	}
	return true
}

// RequeuedBy returns the rules whose results may change after a change.
func (e *Engine) RequeuedBy(change cluster.Change) ruleset.Bits { return e.set.RequeuedBy(change) }

// Local reports whether all of these rules depend only on the checked node.
func (e *Engine) Local(rules ruleset.Bits) bool { return rules>>len(e.set.Filters) == 0 }

// Helps reports whether a change of a node, or of something else if node is nil, may let a pod be placed that these
// rules have refused.
func (e *Engine) Helps(refused ruleset.Bits, change cluster.Change, shape *cluster.Shape, node *cluster.Node) bool {
	return e.set.Helps(refused, change, shape.Demand, node)
}

// ranking returns the updated ranking of a shape.
func (e *Engine) ranking(shape *cluster.Shape) *ranking {
	t := e.table(shape.Demand)
	c := e.class(shape)
	if len(c.relations) == 0 {
		if t.alone == nil {
			t.alone = newRanking(t, nil)
		}
		return t.alone
	}
	if c.ranking == nil || c.ranking.table != t {
		c.ranking = newRanking(t, c.relations)
	}
	return c.ranking
}

func (e *Engine) table(demand *cluster.Demand) *table {
	t, ok := e.tables[demand]
	if !ok {
		t = newTable(demand, e.set)
		e.tables[demand] = t
		e.shrink()
	}
	t.used = e.clock
	t.refresh(e.state)
	return t
}

// class returns the results that are kept for a shape, with relations that are still valid.
func (e *Engine) class(shape *cluster.Shape) *class {
	c, ok := e.related[shape]
	if !ok {
		c, ok = e.plain[shape]
	}
	if ok && e.stands(c, shape) {
		c.used = e.clock
		return c
	}
	c = &class{relations: e.relate(shape), used: e.clock}
	for _, r := range e.set.Relations {
		c.stands = append(c.stands, r.Plugin.Version(shape, e.state))
	}
	delete(e.related, shape)
	delete(e.plain, shape)
	if len(c.relations) > 0 {
		e.related[shape] = c
	} else {
		e.plain[shape] = c
	}
	e.shrink()
	return c
}

func (e *Engine) stands(c *class, shape *cluster.Shape) bool {
	for i, r := range e.set.Relations {
		if c.stands[i] != r.Plugin.Version(shape, e.state) {
			return false
		}
	}
	return true
}

func (e *Engine) relate(shape *cluster.Shape) []relation {
	var relations []relation
	for _, rule := range e.set.Relations {
		for _, rel := range rule.Plugin.Relations(shape, e.state) {
			relations = append(relations, relation{Relation: rel, weight: rule.Weight})
		}
	}
	return relations
}

const (
	// maxCells limits what is kept: a cell is one node in one table or ranking, and takes some 50 bytes.
	maxCells = 1 << 19
	// maxPlain is the maximum number of shapes that are known to have no relations.
	maxPlain = 4096
)

// shrink drops what was used least recently while too much is kept.
func (e *Engine) shrink() {
	most := max(8, maxCells/max(1, e.state.Slots()))
	if len(e.tables) > most {
		if dropped := evict(e.tables, func(t *table) uint64 { return t.used }, e.clock); dropped != nil {
			dropped.countInto(e.calls)
		}
	}
	if len(e.related) > most {
		evict(e.related, func(c *class) uint64 { return c.used }, e.clock)
	}
	if len(e.plain) > maxPlain {
		clear(e.plain) // most of these shapes have no pods any more
	}
}

// evict drops the entry that was used least recently, unless it is in use now, and returns it.
func evict[K comparable, V any](entries map[K]V, used func(V) uint64, now uint64) (dropped V) {
	var oldest K
	least := now
	for key, value := range entries {
		if u := used(value); u < least {
			oldest, least = key, u
		}
	}
	if least < now {
		dropped = entries[oldest]
		delete(entries, oldest)
	}
	return dropped
}
