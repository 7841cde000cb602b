// Package stats summarizes measurements: percentiles of times, and the median and range of several rounds.
//
// Functions do not change the slices that they are given. Without values every result is zero.
package stats

import (
	"slices"
	"time"
)

// Percentiles returns, for each p, the smallest value that p percent of the values do not exceed (nearest rank).
func Percentiles(values []time.Duration, ps ...float64) []time.Duration {
	out := make([]time.Duration, len(ps))
	if len(values) == 0 {
		return out
	}
	sorted := slices.Sorted(slices.Values(values))
	for i, p := range ps {
		rank := int(p/100*float64(len(sorted))+0.999999) - 1
		out[i] = sorted[min(max(rank, 0), len(sorted)-1)]
	}
	return out
}

// Summary is the median and the range of several rounds.
type Summary struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Summarize returns the summary of values.
func Summarize(values []float64) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	s := Summary{Median: sorted[n/2], Min: sorted[0], Max: sorted[n-1]}
	if n%2 == 0 {
		s.Median = (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return s
}

// Spread returns the largest difference between a round and the median, as a fraction of the median.
func (s Summary) Spread() float64 {
	if s.Median == 0 {
		return 0
	}
	return max(s.Max-s.Median, s.Median-s.Min) / s.Median
}
