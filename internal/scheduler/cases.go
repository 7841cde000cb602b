package scheduler

import (
	"time"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
	"github.com/millrace/millrace/internal/scheduler/placement"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// cases are the pod rules, opened for one pod.
type cases []ruleset.Opened

// extra returns the filters and scores for this pod only.
func (c cases) extra() placement.Extra {
	var x placement.Extra
	for _, o := range c {
		at := &x.Before
		if o.Late {
			at = &x.After
		}
		*at = both(*at, o.Filter)
		if d, ok := o.Case.(plugin.Doubter); ok {
			x.Doubtful = either(x.Doubtful, d.Doubtful())
		}
		if s, ok := o.Case.(plugin.CaseScore); ok && o.Weight != 0 && s.Scores() {
			score := placement.Score{Weight: o.Weight, Of: s.Score}
			if n, ok := o.Case.(plugin.Normalizer); ok {
				score.Normalize = n.Normalize
			}
			x.Scores = append(x.Scores, score)
		}
	}
	return x
}

// both returns an admission that requires both; the first may be nil.
func both(first, second placement.Admission) placement.Admission {
	if first == nil {
		return second
	}
	return func(node *cluster.Node) *plugin.Verdict {
		if v := first(node); v != nil {
			return v
		}
		return second(node)
	}
}

// either returns whether one of two functions, of which each may be nil, is true for a node.
func either(first, second func(*cluster.Node) bool) func(*cluster.Node) bool {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(node *cluster.Node) bool { return first(node) || second(node) }
}

// reserve calls Reserve of all cases. If one fails, nothing stays reserved, and the rule that failed is returned.
func (c cases) reserve(node *cluster.Node) (rule string, err error) {
	for i, o := range c {
		r, ok := o.Case.(plugin.Reserver)
		if !ok {
			continue
		}
		if err := r.Reserve(node); err != nil {
			c[:i].unreserve()
			return o.Rule, err
		}
	}
	return "", nil
}

// reserve calls Reserve of all cases of a decision.
func (c *chooser) reserve(d decision, node *cluster.Node) (rule string, err error) {
	if len(d.cases) == 0 {
		return "", nil
	}
	begun := time.Now()
	rule, err = d.cases.reserve(node)
	d.profile.metrics.Ran(Reserve, statusOf(err), time.Since(begun))
	return rule, err
}

func (c cases) unreserve() {
	for i := len(c) - 1; i >= 0; i-- {
		if r, ok := c[i].Case.(plugin.Reserver); ok {
			r.Unreserve()
		}
	}
}

// prepare reports whether something must be done before the pod is bound.
func (c cases) prepare() bool {
	for _, o := range c {
		if p, ok := o.Case.(plugin.Preparer); ok && p.Prepares() {
			return true
		}
	}
	return false
}
