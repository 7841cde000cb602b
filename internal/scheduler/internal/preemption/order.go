package preemption

import (
	"cmp"
	"math"
	"time"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
)

// byImportance sorts pods by priority, highest first, and then by start time, earliest first.
func byImportance(a, b *cluster.Pod) int {
	if c := cmp.Compare(b.Priority, a.Priority); c != 0 {
		return c
	}
	return compareStarts(a.Started, b.Started)
}

// compareStarts treats a pod that has not started yet as the youngest.
func compareStarts(a, b time.Time) int {
	switch {
	case a.IsZero() && b.IsZero():
		return 0
	case a.IsZero():
		return 1
	case b.IsZero():
		return -1
	}
	return a.Compare(b)
}

// better reports whether one candidate is preferred to another: fewer violations of budgets, then a lower priority of
// the most important victim, then a lower sum of priorities, then fewer victims, then a later start of the most
// important victims.
func better(a, b *Candidate) bool {
	for _, c := range []int{
		cmp.Compare(a.Violations, b.Violations),
		cmp.Compare(a.highest(), b.highest()),
		cmp.Compare(a.sum(), b.sum()),
		cmp.Compare(len(a.Victims), len(b.Victims)),
		compareStarts(b.earliest(), a.earliest()),
	} {
		if c != 0 {
			return c < 0
		}
	}
	return false
}

func (c *Candidate) highest() int64 {
	if len(c.Victims) == 0 {
		return math.MinInt64
	}
	return int64(c.Victims[0].Priority)
}

// sum makes all priorities positive, so that an additional victim always increases the sum.
func (c *Candidate) sum() int64 {
	var sum int64
	for _, p := range c.Victims {
		sum += int64(p.Priority) + math.MaxInt32 + 1
	}
	return sum
}

// earliest returns when the first of the victims with the highest priority started.
func (c *Candidate) earliest() time.Time {
	if len(c.Victims) == 0 {
		return time.Time{}
	}
	return c.Victims[0].Started
}
