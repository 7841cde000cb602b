package rules

import (
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// spreadFilter has the DoNotSchedule constraints of one shape.
type spreadFilter struct {
	constraints []hardConstraint
	epoch       uint64
	counted     uint64 // the sum of the tallies' epochs
}

type hardConstraint struct {
	*tally
	self       int64 // 1 if the constraint selects the pod itself
	maxSkew    int64
	minDomains int64
	least      int64 // the lowest count, to which others are compared
}

func newSpreadFilter(shape *cluster.Shape, state *cluster.State, constraints []cluster.SpreadConstraint) *spreadFilter {
	f := &spreadFilter{}
	for i := range constraints {
		c := &constraints[i]
		h := hardConstraint{tally: newSpreadTally(shape, state, c, constraints), maxSkew: c.MaxSkew, minDomains: c.MinDomains}
		if c.Selector.Matches(shape.Labels) {
			h.self = 1
		}
		f.constraints = append(f.constraints, h)
	}
	return f
}

func (f *spreadFilter) Refresh(changed []int32) {
	var counted uint64
	for i := range f.constraints {
		c := &f.constraints[i]
		c.refresh(changed)
		counted += c.epoch
		least := c.lowest()
		if int64(c.occupied) < c.minDomains {
			least = 0 // there are fewer domains than minDomains, so an empty one is assumed
		}
		if least != c.least {
			c.least = least
			f.epoch++
		}
	}
	if counted != f.counted {
		f.counted = counted
		f.epoch++
	}
}

func (f *spreadFilter) Version() uint64 { return f.epoch }

func (f *spreadFilter) Filter(node int) *plugin.Verdict {
	for i := range f.constraints {
		c := &f.constraints[i]
		count, ok := c.at(node)
		if !ok {
			return &withoutTopology
		}
		if count+c.self-c.least > c.maxSkew {
			return &skewed
		}
	}
	return nil
}
