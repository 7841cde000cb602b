package placement

import (
	"math"

	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// normalised is a column of raw scores, with the lowest and the highest of all feasible nodes. The nodes that have
// these two scores are counted, so that a new search is needed only when the last of them has changed.
type normalised struct {
	norm   plugin.Normalizer
	weight int64
	score  ruleset.Score // nil: the column is the table's
	values []int64
	stale  bool // all values must be computed again

	low, high         int64
	atLow, atHigh     int // 0: must be searched for
	lastLow, lastHigh int64

	constant bool  // all feasible nodes have the same score
	same     int64 // that score, weighted
	unrated  bool  // some nodes are unrated
}

func (n *normalised) remove(i int) {
	if n.values[i] == n.low {
		n.atLow--
	}
	if n.values[i] == n.high {
		n.atHigh--
	}
}

func (n *normalised) add(i int, raw int64) {
	n.values[i] = raw
	if raw == ruleset.Unrated {
		n.unrated = true
		n.constant = false
		return
	}
	if n.atLow > 0 {
		switch {
		case raw == n.low:
			n.atLow++
		case raw < n.low:
			n.low, n.atLow = raw, 1
		}
	}
	if n.atHigh > 0 {
		switch {
		case raw == n.high:
			n.atHigh++
		case raw > n.high:
			n.high, n.atHigh = raw, 1
		}
	}
}

// settle updates the lowest and the highest score, and reports whether they have changed since the last call.
func (n *normalised) settle(verdicts []*plugin.Verdict) bool {
	if n.atLow <= 0 || n.atHigh <= 0 {
		n.search(verdicts)
	}
	moved := n.low != n.lastLow || n.high != n.lastHigh
	n.lastLow, n.lastHigh = n.low, n.high
	n.constant = n.low == n.high && !n.unrated
	if n.constant {
		n.same = n.weight * n.norm.Normalize(n.low, n.low, n.high)
	}
	return moved
}

func (n *normalised) search(verdicts []*plugin.Verdict) {
	low, high, atLow, atHigh := int64(math.MaxInt64), int64(math.MinInt64), 0, 0
	n.unrated = false
	for i, v := range verdicts {
		if v != nil {
			continue
		}
		raw := n.values[i]
		if raw == ruleset.Unrated {
			n.unrated = true
			continue
		}
		switch {
		case raw < low:
			low, atLow = raw, 1
		case raw == low:
			atLow++
		}
		switch {
		case raw > high:
			high, atHigh = raw, 1
		case raw == high:
			atHigh++
		}
	}
	if atLow == 0 {
		low, high = 0, 0 // no node is feasible
	}
	n.low, n.high, n.atLow, n.atHigh = low, high, atLow, atHigh
}

func (n *normalised) weighted(i int) int64 {
	switch {
	case n.constant:
		return n.same
	case n.values[i] == ruleset.Unrated:
		return 0
	}
	return n.weight * n.norm.Normalize(n.values[i], n.low, n.high)
}

// addTo adds the weighted scores of all feasible nodes. There are few different raw scores, so the last ones are
// cached.
func (n *normalised) addTo(sums []int64, verdicts []*plugin.Verdict) {
	const slots = 16
	var raws, scores [slots]int64
	for s := range raws {
		raws[s] = ruleset.Unrated // never looked up
	}
	for i, v := range verdicts {
		raw := n.values[i]
		if v != nil || raw == ruleset.Unrated {
			continue
		}
		slot := uint64(raw) % slots
		if raws[slot] != raw {
			raws[slot], scores[slot] = raw, n.weight*n.norm.Normalize(raw, n.low, n.high)
		}
		sums[i] += scores[slot]
	}
}
