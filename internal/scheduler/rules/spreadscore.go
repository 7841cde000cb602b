package rules

import (
	"math"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// spreadScore has the ScheduleAnyway constraints of one shape.
type spreadScore struct {
	constraints []softConstraint
	needAll     bool // nodes without one of the labels are unrated
	epoch       uint64
	counted     uint64
}

type softConstraint struct {
	*tally
	maxSkew int64
	weight  float64 // the more domains there are, the fewer pods each has
	size    int
}

func newSpreadScore(shape *cluster.Shape, state *cluster.State, constraints []cluster.SpreadConstraint, needAll bool) *spreadScore {
	s := &spreadScore{needAll: needAll}
	var needed []cluster.SpreadConstraint
	if needAll {
		needed = constraints
	}
	for i := range constraints {
		c := &constraints[i]
		s.constraints = append(s.constraints, softConstraint{
			tally: newSpreadTally(shape, state, c, needed), maxSkew: c.MaxSkew, size: -1,
		})
	}
	return s
}

func (s *spreadScore) Refresh(changed []int32) {
	var counted uint64
	for i := range s.constraints {
		c := &s.constraints[i]
		c.refresh(changed)
		counted += c.epoch
		if c.occupied != c.size {
			c.size = c.occupied
			c.weight = math.Log(float64(c.size + 2))
			s.epoch++
		}
	}
	if counted != s.counted {
		s.counted = counted
		s.epoch++
	}
}

func (s *spreadScore) Version() uint64 { return s.epoch }

// Score grows with the number of pods in the node's domains: lower is better.
func (s *spreadScore) Score(node int) int64 {
	var sum float64
	for i := range s.constraints {
		c := &s.constraints[i]
		count, ok := c.at(node)
		if !ok {
			if s.needAll {
				return ruleset.Unrated
			}
			continue
		}
		sum += float64(count)*c.weight + float64(c.maxSkew-1)
	}
	return int64(math.Round(sum))
}

func (s *spreadScore) Normalize(raw, lowest, highest int64) int64 {
	if highest == 0 {
		return plugin.MaxScore
	}
	return plugin.MaxScore * (highest + lowest - raw) / highest
}
