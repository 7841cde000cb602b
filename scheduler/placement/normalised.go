package placement

import (
	"math"

	"github.com/millrace/millrace/scheduler/plugin"
)

// normalised is a column of raw scores, with the lowest and the highest among
// feasible nodes. How many nodes have these two is counted, so that they are
// searched for anew only when the last of them is gone.
type normalised struct {
	norm   plugin.Normalizer
	weight int64
	values []int64

	low, high     int64
	atLow, atHigh int // 0: must be searched for
	lastLow       int64
	lastHigh      int64
	constant      bool
	same          int64 // the weighted score of all nodes, if it is constant
}

func (n *normalised) reset() { n.atLow, n.atHigh = 0, 0 }

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
	if raw == plugin.Unrated {
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

// settle makes the bounds right and says whether they are others than at the last settling.
func (n *normalised) settle(verdicts []*plugin.Verdict) bool {
	if n.atLow <= 0 || n.atHigh <= 0 {
		n.search(verdicts)
	}
	if n.low == n.lastLow && n.high == n.lastHigh {
		return false
	}
	n.lastLow, n.lastHigh = n.low, n.high
	n.remember()
	return true
}

func (n *normalised) search(verdicts []*plugin.Verdict) {
	n.low, n.high, n.atLow, n.atHigh = math.MaxInt64, math.MinInt64, 0, 0
	for i, v := range verdicts {
		if v == nil && n.values[i] != plugin.Unrated {
			n.low, n.high = min(n.low, n.values[i]), max(n.high, n.values[i])
		}
	}
	for i, v := range verdicts {
		if v != nil || n.values[i] == plugin.Unrated {
			continue
		}
		if n.values[i] == n.low {
			n.atLow++
		}
		if n.values[i] == n.high {
			n.atHigh++
		}
	}
	if n.atLow == 0 {
		n.low, n.high = 0, 0 // no node is feasible
	}
	n.remember()
}

func (n *normalised) remember() {
	n.constant = n.low == n.high
	if n.constant {
		n.same = n.weight * n.norm.Normalize(n.low, n.low, n.high)
	}
}

func (n *normalised) score(i int) int64 {
	if n.values[i] == plugin.Unrated {
		return 0
	}
	if n.constant {
		return n.same
	}
	return n.weight * n.norm.Normalize(n.values[i], n.low, n.high)
}
