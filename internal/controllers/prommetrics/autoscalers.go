package prommetrics

import (
	"iter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/millrace/millrace/internal/controllers/podautoscaler"
	"github.com/millrace/millrace/loop"
)

// autoscalers is a podautoscaler.Metrics.
type autoscalers struct {
	onDemand[iter.Seq2[loop.Key, int32]]
	evaluations, metrics *children[evaluation, evaluations]
}

// evaluation is how an evaluation of an autoscaler ends, or that of one of its metrics.
type evaluation struct {
	kind   autoscalingv2.MetricSourceType // empty: of the autoscaler
	action podautoscaler.Action
	failed podautoscaler.Failure
}

type evaluations struct {
	number prometheus.Counter
	took   prometheus.Observer
}

func (e evaluations) add(took time.Duration) {
	e.number.Inc()
	e.took.Observe(took.Seconds())
}

func newAutoscalers(m *maker) *autoscalers {
	const subsystem = "horizontal_pod_autoscaler_controller"
	perAll, perMetric, seconds := []string{"action", "error"}, []string{"action", "error", "metric_type"}, prometheus.ExponentialBuckets(0.001, 2, 15)
	all := m.counters(subsystem, "reconciliations_total", "Number of evaluations, by what they did and the first thing that was wrong.", perAll...)
	allTook := m.histograms(subsystem, "reconciliation_duration_seconds", "How long in seconds an evaluation takes.", seconds, perAll...)
	metrics := m.counters(subsystem, "metric_computation_total", "Number of evaluations of metrics, by what they propose and what was wrong.", perMetric...)
	metricsTook := m.histograms(subsystem, "metric_computation_duration_seconds", "How long in seconds an evaluation of a metric takes.", seconds, perMetric...)
	a := &autoscalers{
		evaluations: childrenOf(func(e evaluation) evaluations {
			labels := []string{string(e.action), string(e.failed)}
			return evaluations{all.WithLabelValues(labels...), allTook.WithLabelValues(labels...)}
		}),
		metrics: childrenOf(func(e evaluation) evaluations {
			labels := []string{string(e.action), string(e.failed), string(e.kind)}
			return evaluations{metrics.WithLabelValues(labels...), metricsTook.WithLabelValues(labels...)}
		}),
	}
	number := gauge(subsystem, "num_horizontal_pod_autoscalers", "Number of autoscalers.")
	desired := gauge(subsystem, "desired_replicas", "Number of replicas that an autoscaler wants.", "namespace", "hpa_name")
	m.add(&scraped{[]*prometheus.Desc{number, desired}, func(set setter) {
		known, ok := a.count()
		if !ok {
			return
		}
		n := 0
		for key, replicas := range known {
			n++
			set(desired, float64(replicas), key.Namespace, key.Name)
		}
		set(number, float64(n))
	}})
	return a
}

// Reconciled implements podautoscaler.Metrics.
func (a *autoscalers) Reconciled(did podautoscaler.Action, failed podautoscaler.Failure, took time.Duration) {
	a.evaluations.of(evaluation{action: did, failed: failed}).add(took)
}

// Computed implements podautoscaler.Metrics.
func (a *autoscalers) Computed(kind autoscalingv2.MetricSourceType, proposes podautoscaler.Action, failed podautoscaler.Failure, took time.Duration) {
	a.metrics.of(evaluation{kind, proposes, failed}).add(took)
}
