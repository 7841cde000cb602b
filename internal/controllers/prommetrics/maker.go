package prommetrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// maker makes metrics and registers them. It keeps the first error.
type maker struct {
	r   prometheus.Registerer
	err error
}

func (m *maker) add(c prometheus.Collector) {
	if m.err == nil {
		m.err = m.r.Register(c)
	}
}

func (m *maker) counter(subsystem, name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help})
	m.add(c)
	return c
}

func (m *maker) counters(subsystem, name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
	m.add(c)
	return c
}

func (m *maker) histogram(subsystem, name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: buckets})
	m.add(h)
	return h
}

func (m *maker) histograms(subsystem, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}, labels)
	m.add(h)
	return h
}

// gauge describes a gauge that is counted when somebody asks.
func gauge(subsystem, name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("", subsystem, name), help, labels, nil)
}

// scraped are gauges that are counted when somebody asks.
type scraped struct {
	gauges  []*prometheus.Desc
	collect func(set setter)
}

// setter sends the value of a gauge.
type setter func(d *prometheus.Desc, value float64, labels ...string)

// Describe implements prometheus.Collector.
func (s *scraped) Describe(to chan<- *prometheus.Desc) {
	for _, d := range s.gauges {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s *scraped) Collect(to chan<- prometheus.Metric) {
	s.collect(func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	})
}

// onDemand is how something is counted when somebody asks. The loop that can count sets it when it is made.
type onDemand[T any] struct {
	mu  sync.Mutex
	now func() T // guarded by mu; nil: there is no loop
}

// Count implements the methods of this name of the loops' Metrics.
func (d *onDemand[T]) Count(now func() T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = now
}

func (d *onDemand[T]) count() (counts T, ok bool) {
	d.mu.Lock()
	now := d.now
	d.mu.Unlock()
	if now == nil {
		return counts, false
	}
	return now(), true
}

// children are the metrics of a family, by what their labels say. Each is looked up by its labels once.
type children[K comparable, C any] struct {
	resolve func(K) C

	mu    sync.RWMutex
	known map[K]C // guarded by mu
}

func childrenOf[K comparable, C any](resolve func(K) C) *children[K, C] {
	return &children[K, C]{resolve: resolve, known: map[K]C{}}
}

func (c *children[K, C]) of(k K) C {
	c.mu.RLock()
	child, ok := c.known[k]
	c.mu.RUnlock()
	if ok {
		return child
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	child = c.resolve(k)
	c.known[k] = child
	return child
}
