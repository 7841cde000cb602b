package metrics

import (
	"math"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// scale is the unit of a histogram. Values are whole units, so that sums are integers; per is how many of them are one in
// Prometheus. A bound is divided by it: multiplied with 1e-9, 600 ms would be shown as 0.6000000000000001.
type scale struct {
	bounds []int64
	per    float64
}

// seconds are counted in nanoseconds.
func seconds(bounds ...float64) scale {
	s := scale{per: 1e9}
	for _, b := range bounds {
		s.bounds = append(s.bounds, int64(math.Round(b*1e9)))
	}
	return s
}

// bytes has bounds that grow by a factor.
func bytes(first, factor int64, n int) scale {
	s := scale{per: 1}
	for range n {
		s.bounds = append(s.bounds, first)
		first *= factor
	}
	return s
}

// histogram counts values by size. An observation is two atomic additions; that of the Prometheus library takes a lock
// and adds floats in a loop.
type histogram struct {
	counts []atomic.Uint64 // one for each bound, and one for larger values
	sum    atomic.Int64
}

func newHistogram(s scale) *histogram {
	return &histogram{counts: make([]atomic.Uint64, len(s.bounds)+1)}
}

func (h *histogram) observe(s scale, v int64) {
	h.counts[s.index(v)].Add(1)
	h.sum.Add(v)
}

// index is the bucket of a value.
func (s *scale) index(v int64) int {
	i := 0
	for i < len(s.bounds) && v > s.bounds[i] {
		i++
	}
	return i
}

// move takes away one observation, and makes another one. It is for a histogram that is added to another one: alone it
// may count less than nothing.
func (h *histogram) move(s scale, from, to int64) {
	h.counts[s.index(from)].Add(^uint64(0))
	h.counts[s.index(to)].Add(1)
	h.sum.Add(to - from)
}

// add adds what another histogram of the same scale has.
func (h *histogram) add(other *histogram) {
	for i := range h.counts {
		h.counts[i].Add(other.counts[i].Load())
	}
	h.sum.Add(other.sum.Load())
}

// metric returns the current state. The sum may include an observation that the counts do not include yet.
func (h *histogram) metric(d *prometheus.Desc, s scale, labels ...string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(s.bounds))
	var total uint64
	for i, b := range s.bounds {
		total += h.counts[i].Load()
		buckets[float64(b)/s.per] = total
	}
	total += h.counts[len(s.bounds)].Load()
	return prometheus.MustNewConstHistogram(d, total, float64(h.sum.Load())/s.per, buckets, labels...)
}

func (h *histogram) empty() bool {
	for i := range h.counts {
		if h.counts[i].Load() > 0 {
			return false
		}
	}
	return true
}
