// Package prommetrics exports metrics of work queues to Prometheus, under the names that Kubernetes' components use:
// workqueue_depth, workqueue_adds_total and so on, each with the label name.
//
// The gauges are read from the queues when Prometheus scrapes them. There is one series per queue name: if two queues
// have the same name, the gauges show the newer one, and the counters count both.
package prommetrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/queue"
)

// Metrics is a [queue.Metrics] and a Prometheus collector.
type Metrics struct {
	adds, retries *prometheus.CounterVec
	waited, work  *prometheus.HistogramVec

	mu     sync.Mutex // guards states
	states map[string]func() queue.State
}

var (
	label      = []string{"name"}
	depth      = prometheus.NewDesc("workqueue_depth", "Current depth of workqueue", label, nil)
	unfinished = prometheus.NewDesc("workqueue_unfinished_work_seconds",
		"Seconds spent so far on the keys that are still worked on.", label, nil)
	longest = prometheus.NewDesc("workqueue_longest_running_processor_seconds",
		"Seconds that the longest running worker has spent on its key.", label, nil)
)

// New makes the metrics and registers them with each registerer given.
func New(registerers ...prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		adds:    counter("adds_total", "Total number of adds handled by workqueue"),
		retries: counter("retries_total", "Total number of retries handled by workqueue"),
		waited:  histogram("queue_duration_seconds", "How long in seconds a key waits before a worker takes it."),
		work:    histogram("work_duration_seconds", "How long in seconds a worker is busy with a key."),
		states:  map[string]func() queue.State{},
	}
	for _, r := range registerers {
		if err := r.Register(m); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func counter(name, help string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "workqueue", Name: name, Help: help}, label)
}

func histogram(name, help string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Subsystem: "workqueue", Name: name, Help: help,
		Buckets: prometheus.ExponentialBuckets(10e-9, 10, 10),
	}, label)
}

// Queue gives a queue its counters.
func (m *Metrics) Queue(name string, state func() queue.State) queue.Counters {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.states[name] = state
	return &counters{
		adds:    m.adds.WithLabelValues(name),
		retries: m.retries.WithLabelValues(name),
		waited:  m.waited.WithLabelValues(name),
		work:    m.work.WithLabelValues(name),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.vectors() {
		c.Describe(out)
	}
	for _, d := range []*prometheus.Desc{depth, unfinished, longest} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.vectors() {
		c.Collect(out)
	}
	for name, s := range m.read() {
		gauge := func(d *prometheus.Desc, v float64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, name)
		}
		gauge(depth, float64(s.Ready))
		gauge(unfinished, s.Unfinished.Seconds())
		gauge(longest, s.Longest.Seconds())
	}
}

func (m *Metrics) vectors() []prometheus.Collector {
	return []prometheus.Collector{m.adds, m.retries, m.waited, m.work}
}

func (m *Metrics) read() map[string]queue.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	states := make(map[string]queue.State, len(m.states))
	for name, state := range m.states {
		states[name] = state()
	}
	return states
}

type counters struct {
	adds, retries prometheus.Counter
	waited, work  prometheus.Observer
}

func (c *counters) Added()                        { c.adds.Inc() }
func (c *counters) Retried()                      { c.retries.Inc() }
func (c *counters) Taken(waited time.Duration)    { c.waited.Observe(waited.Seconds()) }
func (c *counters) Finished(worked time.Duration) { c.work.Observe(worked.Seconds()) }
