package ruleset

import (
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// surveyed makes a Rule of a user's ClusterRule. Such a rule cannot tell which results stay valid, so it surveys the
// cluster again after every change.
type surveyed struct{ rule plugin.ClusterRule }

func (s *surveyed) Name() string { return s.rule.Name() }

func (s *surveyed) Version(*cluster.Shape, *cluster.State) uint64 { return 0 }

func (s *surveyed) Relations(shape *cluster.Shape, state *cluster.State) []Relation {
	return []Relation{&survey{rule: s.rule, shape: shape, state: state}}
}

// survey is a ClusterRule's last result for a shape.
type survey struct {
	rule    plugin.ClusterRule
	shape   *cluster.Shape
	state   *cluster.State
	version uint64
	said    plugin.Survey
}

func (s *survey) Refresh([]int32) {
	s.version++
	s.said = s.rule.Survey(s.shape, s.state)
}

func (s *survey) Version() uint64 { return s.version }

func (s *survey) Filter(node int) *plugin.Verdict {
	if s.said.Filter == nil {
		return nil
	}
	return s.said.Filter(s.state.Node(node))
}

func (s *survey) Score(node int) int64 {
	if s.said.Score == nil {
		return 0
	}
	return s.said.Score(s.state.Node(node))
}

func (s *survey) Normalize(raw, lowest, highest int64) int64 {
	if s.said.Normalize == nil {
		return raw
	}
	return s.said.Normalize(raw, lowest, highest)
}
