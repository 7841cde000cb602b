package metrics

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Admission counts the calls and results of webhooks and policies.
type Admission struct {
	policies, mutations                        *prometheus.CounterVec
	policyDurations, mutationDurations         *prometheus.HistogramVec
	durations                                  *prometheus.HistogramVec
	requests, rejections, open, failed, passed *prometheus.CounterVec
}

// NewAdmission makes the counters. They are a prometheus.Collector.
func NewAdmission() *Admission {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_admission_" + name, Help: help}, labels)
	}
	policy := []string{"policy", "policy_binding", "error_type"}
	action := append(slices.Clone(policy), "enforcement_action")
	counted := func(of string, labels []string) (*prometheus.CounterVec, *prometheus.HistogramVec) {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_" + of + "_check_total", Help: "Decisions of policies."}, labels),
			prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_" + of + "_check_duration_seconds", Help: "How long decisions of policies took.",
				Buckets: []float64{0.0000005, 0.001, 0.01, 0.1, 1}}, labels)
	}
	a := &Admission{
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_admission_webhook_admission_duration_seconds", Help: "How long calls of admission webhooks took.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 25},
		}, []string{"name", "type", "operation", "rejected"}),
		requests:   counter("webhook_request_total", "Calls of admission webhooks.", "name", "type", "operation", "code", "rejected"),
		rejections: counter("webhook_rejection_count", "Requests that admission webhooks rejected, by reason.", "name", "type", "operation", "error_type", "rejection_code"),
		open:       counter("webhook_fail_open_count", "Failures of admission webhooks that were ignored.", "name", "type"),
		failed:     counter("match_condition_evaluation_errors_total", "Match conditions that could not be evaluated.", "name", "kind", "type", "operation"),
		passed:     counter("match_condition_exclusions_total", "Requests for which a webhook was not called because of its match conditions.", "name", "kind", "type", "operation"),
	}
	a.policies, a.policyDurations = counted("validating_admission_policy", action)
	a.mutations, a.mutationDurations = counted("mutating_admission_policy", policy)
	return a
}

func (a *Admission) all() []prometheus.Collector {
	return []prometheus.Collector{a.durations, a.requests, a.rejections, a.open, a.failed, a.passed,
		a.policies, a.policyDurations, a.mutations, a.mutationDurations}
}

// Describe implements prometheus.Collector.
func (a *Admission) Describe(out chan<- *prometheus.Desc) {
	for _, c := range a.all() {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (a *Admission) Collect(out chan<- prometheus.Metric) {
	for _, c := range a.all() {
		c.Collect(out)
	}
}

// largestCode bounds the number of codes, which webhooks choose.
const largestCode = 600

func codeText(code int) string { return strconv.Itoa(min(code, largestCode)) }

// Called implements webhooks.Metrics.
func (a *Admission) Called(name, step, operation string, code int, rejected bool, took time.Duration) {
	r := strconv.FormatBool(rejected)
	a.requests.WithLabelValues(name, step, operation, codeText(code), r).Inc()
	a.durations.WithLabelValues(name, step, operation, r).Observe(took.Seconds())
}

// Rejected implements webhooks.Metrics.
func (a *Admission) Rejected(name, step, operation, why string, code int) {
	a.rejections.WithLabelValues(name, step, operation, why, codeText(code)).Inc()
}

// FailedOpen implements webhooks.Metrics.
func (a *Admission) FailedOpen(name, step string) { a.open.WithLabelValues(name, step).Inc() }

// ConditionFailed implements webhooks.Metrics.
func (a *Admission) ConditionFailed(name, step, operation string) {
	a.failed.WithLabelValues(name, "webhook", step, operation).Inc()
}

// Excluded implements webhooks.Metrics.
func (a *Admission) Excluded(name, step, operation string) {
	a.passed.WithLabelValues(name, "webhook", step, operation).Inc()
}

// Checked implements policies.Metrics.
func (a *Admission) Checked(policy, binding, errorType, action string, took time.Duration) {
	a.policies.WithLabelValues(policy, binding, errorType, action).Inc()
	a.policyDurations.WithLabelValues(policy, binding, errorType, action).Observe(took.Seconds())
}

// Mutated implements policies.Metrics.
func (a *Admission) Mutated(policy, binding, errorType string, took time.Duration) {
	a.mutations.WithLabelValues(policy, binding, errorType).Inc()
	a.mutationDurations.WithLabelValues(policy, binding, errorType).Observe(took.Seconds())
}
