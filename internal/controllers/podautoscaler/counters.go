package podautoscaler

import (
	"iter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/millrace/millrace/internal/controllers/internal/meter"
	"github.com/millrace/millrace/loop"
)

// Metrics counts evaluations.
type Metrics struct {
	meter.OnDemand[iter.Seq2[loop.Key, int32]]
	evaluations, metrics *meter.Children[outcome, meter.Timed]
}

// outcome is how an evaluation of an autoscaler ends, or that of one of its metrics.
type outcome struct {
	kind   autoscalingv2.MetricSourceType // empty: of the autoscaler
	action Action
	failed Failure
}

// NewMetrics makes the metrics.
func NewMetrics(m *meter.Maker) *Metrics {
	const subsystem = "horizontal_pod_autoscaler_controller"
	perAll, perMetric, seconds := []string{"action", "error"}, []string{"action", "error", "metric_type"}, prometheus.ExponentialBuckets(0.001, 2, 15)
	all := m.Counters(subsystem, "reconciliations_total", "Number of evaluations, by what they did and the first thing that was wrong.", perAll...)
	allTook := m.Histograms(subsystem, "reconciliation_duration_seconds", "How long in seconds an evaluation takes.", seconds, perAll...)
	metrics := m.Counters(subsystem, "metric_computation_total", "Number of evaluations of metrics, by what they propose and what was wrong.", perMetric...)
	metricsTook := m.Histograms(subsystem, "metric_computation_duration_seconds", "How long in seconds an evaluation of a metric takes.", seconds, perMetric...)
	a := &Metrics{
		evaluations: meter.ChildrenOf(func(e outcome) meter.Timed {
			labels := []string{string(e.action), string(e.failed)}
			return meter.Timed{Number: all.WithLabelValues(labels...), Took: allTook.WithLabelValues(labels...)}
		}),
		metrics: meter.ChildrenOf(func(e outcome) meter.Timed {
			labels := []string{string(e.action), string(e.failed), string(e.kind)}
			return meter.Timed{Number: metrics.WithLabelValues(labels...), Took: metricsTook.WithLabelValues(labels...)}
		}),
	}
	number := meter.Gauge(subsystem, "num_horizontal_pod_autoscalers", "Number of autoscalers.")
	desired := meter.Gauge(subsystem, "desired_replicas", "Number of replicas that an autoscaler wants.", "namespace", "hpa_name")
	m.Scraped([]*prometheus.Desc{number, desired}, func(set meter.Setter) {
		known, ok := a.Now()
		if !ok {
			return
		}
		n := 0
		for key, replicas := range known {
			n++
			set(desired, float64(replicas), key.Namespace, key.Name)
		}
		set(number, float64(n))
	})
	return a
}

// Reconciled counts an evaluation, by what it did and the first failure in it.
func (a *Metrics) Reconciled(did Action, failed Failure, took time.Duration) {
	a.evaluations.Of(outcome{action: did, failed: failed}).Add(took)
}

// Computed counts an evaluation of a metric, by what it proposes.
func (a *Metrics) Computed(kind autoscalingv2.MetricSourceType, proposes Action, failed Failure, took time.Duration) {
	a.metrics.Of(outcome{kind, proposes, failed}).Add(took)
}
