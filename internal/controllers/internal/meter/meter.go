// Package meter makes Prometheus' metrics for control loops.
//
// What is guaranteed: metrics that are counted often are looked up by their labels once for each combination of them
// (Children). What a loop only knows, such as the number of nodes, is counted when somebody asks (OnDemand, Scraped).
package meter

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Maker makes metrics and registers them. It keeps the first error.
type Maker struct {
	r   prometheus.Registerer
	err error
}

// New makes a maker. Without a registerer, metrics count and nobody can ask them.
func New(r prometheus.Registerer) *Maker { return &Maker{r: r} }

// Err is the first error.
func (m *Maker) Err() error { return m.err }

func (m *Maker) add(c prometheus.Collector) {
	if m.err == nil && m.r != nil {
		m.err = m.r.Register(c)
	}
}

// Counter makes a counter.
func (m *Maker) Counter(subsystem, name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help})
	m.add(c)
	return c
}

// Counters makes a family of counters.
func (m *Maker) Counters(subsystem, name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
	m.add(c)
	return c
}

// Histogram makes a histogram.
func (m *Maker) Histogram(subsystem, name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: buckets})
	m.add(h)
	return h
}

// Histograms makes a family of histograms.
func (m *Maker) Histograms(subsystem, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}, labels)
	m.add(h)
	return h
}

// Gauge describes a gauge that is counted when somebody asks.
func Gauge(subsystem, name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("", subsystem, name), help, labels, nil)
}

// scraped are gauges that are counted when somebody asks.
type scraped struct {
	gauges  []*prometheus.Desc
	collect func(set Setter)
}

// Setter sends the value of a gauge.
type Setter func(d *prometheus.Desc, value float64, labels ...string)

// Scraped registers gauges that collect sets when somebody asks.
func (m *Maker) Scraped(gauges []*prometheus.Desc, collect func(set Setter)) {
	m.add(&scraped{gauges, collect})
}

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

// OnDemand is how something is counted when somebody asks. The loop that can count sets it when it is made.
type OnDemand[T any] struct {
	mu  sync.Mutex
	now func() T // guarded by mu; nil: there is no loop
}

// Count sets how it is counted. It is for scrapes: it may look at everything.
func (d *OnDemand[T]) Count(now func() T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = now
}

// Now counts. ok is false if no loop can.
func (d *OnDemand[T]) Now() (counts T, ok bool) {
	d.mu.Lock()
	now := d.now
	d.mu.Unlock()
	if now == nil {
		return counts, false
	}
	return now(), true
}

// Children are the metrics of a family, by what their labels say. Each is looked up by its labels once.
type Children[K comparable, C any] struct {
	resolve func(K) C

	mu    sync.RWMutex
	known map[K]C // guarded by mu
}

// ChildrenOf makes children; resolve looks one up by its labels.
func ChildrenOf[K comparable, C any](resolve func(K) C) *Children[K, C] {
	return &Children[K, C]{resolve: resolve, known: map[K]C{}}
}

// Of is the metric of some labels.
func (c *Children[K, C]) Of(k K) C {
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

// Timed counts something and how long it takes.
type Timed struct {
	Number prometheus.Counter
	Took   prometheus.Observer
}

// Add counts one.
func (t Timed) Add(took time.Duration) {
	t.Number.Inc()
	t.Took.Observe(took.Seconds())
}
