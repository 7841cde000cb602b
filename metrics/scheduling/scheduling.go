// Package scheduling counts for Prometheus what a scheduler does, under kube-scheduler's names.
package scheduling

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/scheduler"
)

// Metrics is a scheduler.Metrics.
type Metrics struct {
	attempts    *prometheus.CounterVec
	attempt     *prometheus.HistogramVec
	algorithm   prometheus.Histogram
	podAttempts prometheus.Histogram
	podDuration *prometheus.HistogramVec
	pending     *prometheus.GaugeVec
}

// New makes the metrics and registers them.
func New(r prometheus.Registerer) (*Metrics, error) {
	quick := prometheus.ExponentialBuckets(0.001, 2, 15)
	m := &Metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scheduler_schedule_attempts_total", Help: "Attempts to schedule pods, by result.",
		}, []string{"profile", "result"}),
		attempt: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "scheduler_scheduling_attempt_duration_seconds", Help: "How long an attempt took, binding included.", Buckets: quick,
		}, []string{"profile", "result"}),
		algorithm: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "scheduler_scheduling_algorithm_duration_seconds", Help: "How long decisions took.", Buckets: quick,
		}),
		podAttempts: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "scheduler_pod_scheduling_attempts", Help: "How many attempts it took until a pod had its node.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 5),
		}),
		podDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "scheduler_pod_scheduling_sli_duration_seconds", Help: "How long it took until a pod had its node, from when it was first seen.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 20),
		}, []string{"attempts"}),
		pending: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "scheduler_pending_pods", Help: "Pods that wait for a node, by part of the queue.",
		}, []string{"queue"}),
	}
	for _, c := range []prometheus.Collector{m.attempts, m.attempt, m.algorithm, m.podAttempts, m.podDuration, m.pending} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Attempt implements scheduler.Metrics.
func (m *Metrics) Attempt(profile string, result scheduler.Result, took time.Duration) {
	m.attempts.WithLabelValues(profile, string(result)).Inc()
	m.attempt.WithLabelValues(profile, string(result)).Observe(took.Seconds())
}

// Decided implements scheduler.Metrics.
func (m *Metrics) Decided(took time.Duration) { m.algorithm.Observe(took.Seconds()) }

// mostAttempts is how far attempts are told apart in labels.
const mostAttempts = 16

// Bound implements scheduler.Metrics.
func (m *Metrics) Bound(attempts int, waited time.Duration) {
	m.podAttempts.Observe(float64(attempts))
	label := strconv.Itoa(attempts)
	if attempts >= mostAttempts {
		label = strconv.Itoa(mostAttempts-1) + "+"
	}
	m.podDuration.WithLabelValues(label).Observe(waited.Seconds())
}

// Pending implements scheduler.Metrics.
func (m *Metrics) Pending(queue string, pods int) {
	m.pending.WithLabelValues(queue).Set(float64(pods))
}
