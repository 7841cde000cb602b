package placement

import (
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Candidate is a node to which a pod may go. A higher total is better.
type Candidate struct {
	Node  *cluster.Node
	total int64
}

// Better reports whether a candidate is better after these have been added to both totals.
func (c Candidate) Better(other Candidate, mine, its int64) bool {
	return c.total+mine<<tieBits > other.total+its<<tieBits
}

// Candidates returns all nodes to which a pod may go, and the reasons for the others.
func (e *Engine) Candidates(shape *cluster.Shape, x Extra) ([]Candidate, []*plugin.Verdict) {
	e.clock++
	if names, named := shape.Match.Names(); named {
		return e.candidatesAmong(shape, names, &x)
	}
	r := e.ranking(shape)
	r.refresh(e.state)
	var candidates []Candidate
	var nodes []*cluster.Node
	var refused []refusal
	for i, total := range r.totals.values {
		if total == infeasible {
			continue
		}
		node := r.nodeIn(e, i)
		if v := x.Verdict(node); v != nil {
			refused = append(refused, refusal{i, total, v})
			continue
		}
		candidates = append(candidates, Candidate{node, total})
		nodes = append(nodes, node)
	}
	for i, rating := range x.rate(nodes) {
		candidates[i].total += rating << tieBits
	}
	var verdicts []*plugin.Verdict
	for _, v := range r.explained(e, &x, refused) {
		if v != nil && v != &absent {
			verdicts = append(verdicts, v)
		}
	}
	return candidates, verdicts
}

// candidatesAmong is Candidates for a pod that names its nodes.
func (e *Engine) candidatesAmong(shape *cluster.Shape, names []string, x *Extra) ([]Candidate, []*plugin.Verdict) {
	var candidates []Candidate
	var verdicts []*plugin.Verdict
	trial, looked := e.Try(shape), 0
	for _, name := range names {
		node, ok := e.state.NodeNamed(name)
		if !ok || !node.Present {
			continue
		}
		looked++
		v := trial.Verdict(node)
		if v == nil {
			v = x.Verdict(node)
		}
		if v != nil {
			verdicts = append(verdicts, v)
		} else {
			candidates = append(candidates, Candidate{Node: node})
		}
	}
	for range e.state.Nodes() - looked {
		verdicts = append(verdicts, &elsewhere)
	}
	return candidates, verdicts
}
