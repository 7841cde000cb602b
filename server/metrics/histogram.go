package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// scale says what a histogram counts in: whole units, so that sums are integers, and what one unit is to Prometheus.
type scale struct {
	bounds []int64
	unit   float64
}

// seconds are counted in nanoseconds.
func seconds(bounds ...float64) scale {
	s := scale{unit: 1e-9}
	for _, b := range bounds {
		s.bounds = append(s.bounds, int64(b*1e9))
	}
	return s
}

// bytes grow by a factor.
func bytes(first, factor int64, n int) scale {
	s := scale{unit: 1}
	for range n {
		s.bounds = append(s.bounds, first)
		first *= factor
	}
	return s
}

// histogram counts values by size. Observing is two additions, against a lock and a loop over a float in the library's.
type histogram struct {
	counts []atomic.Uint64 // one for each bound, and one for what is above
	sum    atomic.Int64
}

func newHistogram(s scale) *histogram {
	return &histogram{counts: make([]atomic.Uint64, len(s.bounds)+1)}
}

func (h *histogram) observe(s scale, v int64) {
	i := 0
	for i < len(s.bounds) && v > s.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(v)
}

// metric is the present state. The sum may be ahead of the counts by what is being observed.
func (h *histogram) metric(d *prometheus.Desc, s scale, labels ...string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(s.bounds))
	var total uint64
	for i, b := range s.bounds {
		total += h.counts[i].Load()
		buckets[float64(b)*s.unit] = total
	}
	total += h.counts[len(s.bounds)].Load()
	return prometheus.MustNewConstHistogram(d, total, float64(h.sum.Load())*s.unit, buckets, labels...)
}

func (h *histogram) empty() bool {
	for i := range h.counts {
		if h.counts[i].Load() > 0 {
			return false
		}
	}
	return true
}
