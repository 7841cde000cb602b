// Package prommetrics exports a scheduler's metrics to Prometheus, under kube-scheduler's names:
// scheduler_schedule_attempts_total, scheduler_pending_pods and so on.
package prommetrics

import (
	"strconv"
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
}

// New makes the metrics and registers them with each registerer.
func New(registerers ...prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
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
func (m *Metrics) Attempt(profile string, result scheduler.Result, took time.Duration) {
	m.attempts.WithLabelValues(profile, string(result)).Inc()
	m.took.WithLabelValues(profile, string(result)).Observe(took.Seconds())
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
}

// Collect sends the metrics.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(out)
	}
}
