package prommetrics_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/scheduler"
	"github.com/millrace/millrace/scheduler/prommetrics"
)

func TestMetricsCarryKubernetesNames(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	metrics, err := prommetrics.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	var _ scheduler.Metrics = metrics
	metrics.Attempt("default-scheduler", scheduler.Scheduled, 2*time.Second)
	metrics.Attempt("default-scheduler", scheduler.Unschedulable, time.Second)
	metrics.Decided(3 * time.Second)
	metrics.Bound(40, 5*time.Second)
	metrics.Pending("active", 7)
	metrics.Count(func() scheduler.Counts {
		return scheduler.Counts{Nodes: 1, Pods: 10, Assumed: 100, Unschedulable: map[scheduler.Refuser]int{{Profile: "default-scheduler", Plugin: "NodeResourcesFit"}: 8}}
	})
	want := map[string]float64{
		"scheduler_schedule_attempts_total":               2,
		"scheduler_scheduling_attempt_duration_seconds":   3,
		"scheduler_scheduling_algorithm_duration_seconds": 3,
		"scheduler_pod_scheduling_attempts":               40,
		"scheduler_pod_scheduling_sli_duration_seconds":   5,
		"scheduler_pending_pods":                          7,
		"scheduler_cache_size":                            111,
		"scheduler_unschedulable_pods":                    8,
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		sum := 0.0
		for _, m := range family.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
		}
		if sum != want[family.GetName()] {
			t.Errorf("%s is %v, want %v", family.GetName(), sum, want[family.GetName()])
		}
		delete(want, family.GetName())
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}
