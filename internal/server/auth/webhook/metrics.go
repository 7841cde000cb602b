package webhook

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are what kube-apiserver tells of authorization webhooks, under the same names. Nil counts nothing.
type Metrics struct {
	evaluations, failOpen, excluded, unevaluated *prometheus.CounterVec
	duration, conditions                         *prometheus.HistogramVec
}

// NewMetrics makes the metrics of all webhooks of a server.
func NewMetrics() *Metrics {
	const prefix = "apiserver_authorization_"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	}
	return &Metrics{
		evaluations: counter("webhook_evaluations_total", "Round-trips to authorization webhooks.", "name", "result"),
		failOpen:    counter("webhook_evaluations_fail_open_total", "NoOpinion results due to webhook timeout or error.", "name", "result"),
		excluded: counter("match_condition_exclusions_total",
			"Total number of exclusions when an authorization webhook is skipped because match conditions exclude it.", "type", "name"),
		unevaluated: counter("match_condition_evaluation_errors_total",
			"Total number of errors when an authorization webhook encounters a match condition error split by authorizer type and name.", "type", "name"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + "webhook_duration_seconds", Help: "Request latency in seconds.",
			Buckets: prometheus.DefBuckets}, []string{"name", "result"}),
		conditions: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + "match_condition_evaluation_seconds",
			Help:    "Authorization match condition evaluation time in seconds, split by authorizer type and name.",
			Buckets: []float64{0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25}}, []string{"type", "name"}),
	}
}

// asked notes the outcome of a round trip.
func (m *Metrics) asked(ctx context.Context, name string, err error, took time.Duration) {
	if m == nil {
		return
	}
	m.evaluations.WithLabelValues(name, result(ctx, err)).Inc()
	m.duration.WithLabelValues(name, result(ctx, err)).Observe(took.Seconds())
}

// opened notes that a webhook could not be asked, and that others decide.
func (m *Metrics) opened(ctx context.Context, name string, err error) {
	if m != nil && ctx.Err() == nil {
		m.failOpen.WithLabelValues(name, result(ctx, err)).Inc()
	}
}

const hookType = "Webhook"

// matched notes how the conditions of a webhook came out.
func (m *Metrics) matched(name string, yes bool, err error, took time.Duration) {
	if m == nil {
		return
	}
	m.conditions.WithLabelValues(hookType, name).Observe(took.Seconds())
	switch {
	case err != nil:
		m.unevaluated.WithLabelValues(hookType, name).Inc()
	case !yes:
		m.excluded.WithLabelValues(hookType, name).Inc()
	}
}

func result(ctx context.Context, err error) string {
	var timeout net.Error
	switch {
	case err == nil:
		return "success"
	case ctx.Err() != nil:
		return "canceled"
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "error"
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.evaluations, m.failOpen, m.excluded, m.unevaluated, m.duration, m.conditions}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(ch)
	}
}
