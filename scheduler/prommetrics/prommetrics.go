// Package prommetrics exports a scheduler's metrics to Prometheus, under kube-scheduler's names:
// scheduler_schedule_attempts_total, scheduler_pending_pods and so on.
package prommetrics

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/scheduler"
)

// Metrics is a [scheduler.Metrics] and a Prometheus collector.
type Metrics struct {
	attempts *prometheus.CounterVec
	took     *prometheus.HistogramVec
	decided  prometheus.Histogram
	tries    prometheus.Histogram
	waited   *prometheus.HistogramVec
	pending  *prometheus.GaugeVec
	preempts prometheus.Counter
	victims  prometheus.Histogram

	mu      sync.RWMutex // guards what follows
	results map[result]*outcome
	count   func() scheduler.Counts // nil while no scheduler runs
}

// result is what an attempt ends with.
type result struct {
	profile string
	result  scheduler.Result
}

// outcome has the counters of one result.
type outcome struct {
	attempts prometheus.Counter
	took     prometheus.Observer
}

var (
	cached = prometheus.NewDesc("scheduler_cache_size",
		"Number of nodes, of pods with a node, and of pods whose node was decided and not seen yet.", []string{"type"}, nil)
	refused = prometheus.NewDesc("scheduler_unschedulable_pods",
		"Number of pods without a node, by the plugin that has refused them and the profile. One pod counts for each plugin.", []string{"plugin", "profile"}, nil)
)

// New makes the metrics and registers them with each registerer.
func New(registerers ...prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		results: map[result]*outcome{},
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: "scheduler", Name: "schedule_attempts_total",
			Help: "Number of attempts to schedule pods, by the result.",
		}, []string{"profile", "result"}),
		took: histograms("scheduling_attempt_duration_seconds",
			"How long in seconds an attempt takes, from its decision to the answer to its binding.", 0.001, 15, "profile", "result"),
		decided: histogram("scheduling_algorithm_duration_seconds",
			"How long in seconds it takes to find a node.", prometheus.ExponentialBuckets(1e-6, 2, 20)),
		tries: histogram("pod_scheduling_attempts",
			"How many attempts a pod needs to get a node.", prometheus.ExponentialBuckets(1, 2, 5)),
		waited: histograms("pod_scheduling_sli_duration_seconds",
			"How long in seconds a pod is without a node, from when the scheduler first sees it.", 0.01, 20, "attempts"),
		pending: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Subsystem: "scheduler", Name: "pending_pods",
			Help: "Number of pods without a node, by the part of the queue that they are in.",
		}, []string{"queue"}),
		preempts: prometheus.NewCounter(prometheus.CounterOpts{
			Subsystem: "scheduler", Name: "preemption_attempts_total",
			Help: "How often pods were looked for that could leave for another one.",
		}),
		victims: histogram("preemption_victims",
			"How many pods had to leave for one.", prometheus.ExponentialBuckets(1, 2, 7)),
	}
	for _, r := range registerers {
		if err := r.Register(m); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Subsystem: "scheduler", Name: name, Help: help, Buckets: buckets})
}

func histograms(name, help string, from float64, buckets int, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Subsystem: "scheduler", Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(from, 2, buckets),
	}, labels)
}

// Attempt implements [scheduler.Metrics].
func (m *Metrics) Attempt(profile string, is scheduler.Result, took time.Duration) {
	o := m.outcome(result{profile, is})
	o.attempts.Inc()
	o.took.Observe(took.Seconds())
}

// outcome returns the counters of a result. They are looked up by their labels once.
func (m *Metrics) outcome(r result) *outcome {
	m.mu.RLock()
	o, ok := m.results[r]
	m.mu.RUnlock()
	if ok {
		return o
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o = &outcome{m.attempts.WithLabelValues(r.profile, string(r.result)), m.took.WithLabelValues(r.profile, string(r.result))}
	m.results[r] = o
	return o
}

// Count implements [scheduler.Metrics].
func (m *Metrics) Count(now func() scheduler.Counts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count = now
}

// Decided implements [scheduler.Metrics].
func (m *Metrics) Decided(took time.Duration) { m.decided.Observe(took.Seconds()) }

// mostAttempts is the maximum value of the label attempts.
const mostAttempts = 15

// Bound implements [scheduler.Metrics].
func (m *Metrics) Bound(attempts int, waited time.Duration) {
	m.tries.Observe(float64(attempts))
	label := strconv.Itoa(min(attempts, mostAttempts))
	if attempts > mostAttempts {
		label += "+"
	}
	m.waited.WithLabelValues(label).Observe(waited.Seconds())
}

// Pending implements [scheduler.Metrics].
func (m *Metrics) Pending(queue string, pods int) {
	m.pending.WithLabelValues(queue).Set(float64(pods))
}

// PreemptionAttempt implements [scheduler.Metrics].
func (m *Metrics) PreemptionAttempt() { m.preempts.Inc() }

// Preempted implements [scheduler.Metrics].
func (m *Metrics) Preempted(victims int) { m.victims.Observe(float64(victims)) }

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.attempts, m.took, m.decided, m.tries, m.waited, m.pending, m.preempts, m.victims}
}

// Describe lists what Collect will send.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(out)
	}
	out <- cached
	out <- refused
}

// Collect sends the metrics.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(out)
	}
	m.mu.RLock()
	count := m.count
	m.mu.RUnlock()
	if count == nil {
		return
	}
	now := count()
	for kind, n := range map[string]int{"nodes": now.Nodes, "pods": now.Pods, "assumed_pods": now.Assumed} {
		out <- prometheus.MustNewConstMetric(cached, prometheus.GaugeValue, float64(n), kind)
	}
	for by, n := range now.Unschedulable {
		out <- prometheus.MustNewConstMetric(refused, prometheus.GaugeValue, float64(n), by.Plugin, by.Profile)
	}
}
