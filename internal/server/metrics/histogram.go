package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// scale is the unit of a histogram. Values are whole units, so that sums are integers; unit is the value of one unit in
// Prometheus.
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

// bytes has bounds that grow by a factor.
func bytes(first, factor int64, n int) scale {
	s := scale{unit: 1}
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
	i := 0
	for i < len(s.bounds) && v > s.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(v)
}

// metric returns the current state. The sum may include an observation that the counts do not include yet.
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
