package prommetrics_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/scheduler"
	"github.com/millrace/millrace/internal/scheduler/plugin"
	"github.com/millrace/millrace/internal/scheduler/prommetrics"
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
	metrics.Bound(40, 5*time.Second, true)
	metrics.Evicted(nil, 2*time.Second)
	metrics.Handled("NodeAdd", 3*time.Second)
	metrics.ClaimCreated(nil)
	metrics.DeviceWaited("default-scheduler", plugin.DeviceWait{Driver: "gpu.example.com", Conditioned: true, Outcome: "success", Took: 3 * time.Second})
	metrics.DeviceWaited("default-scheduler", plugin.DeviceWait{Driver: "nic.example.com", Outcome: "success", Took: 3 * time.Second})
	profile := metrics.Profile("default-scheduler")
	for range 2 {
		profile.Ran(scheduler.PostFilter, scheduler.Refused, time.Second)
		profile.RanRule("NodePorts", scheduler.Filter, scheduler.Hopeless, 2*time.Second)
	}
	metrics.Pending("active", 7)
	metrics.Count(func() scheduler.Counts {
		return scheduler.Counts{
			Nodes: 1, Pods: 10, Assumed: 100, InFlight: 9, Unschedulable: map[scheduler.Refuser]int{{Profile: "default-scheduler", Plugin: "NodeResourcesFit"}: 8},
			Incoming:    map[scheduler.Incoming]uint64{{Queue: "active", Event: "UnschedulablePodAdd"}: 11},
			Evaluations: map[scheduler.Evaluation]uint64{{Refuser: scheduler.Refuser{Profile: "default-scheduler", Plugin: "NodePorts"}, Point: scheduler.Filter}: 12},
		}
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

		"scheduler_pod_scheduled_after_flush_total":             1,
		"scheduler_preemption_goroutines_duration_seconds":      2,
		"scheduler_preemption_goroutines_execution_total":       1,
		"scheduler_event_handling_duration_seconds":             3,
		"scheduler_framework_extension_point_duration_seconds":  2,
		"scheduler_plugin_execution_duration_seconds":           4,
		"scheduler_goroutines":                                  9,
		"scheduler_inflight_events":                             9,
		"scheduler_queue_incoming_pods_total":                   11,
		"scheduler_plugin_evaluation_total":                     12,
		"scheduler_resourceclaim_creates_total":                 1,
		"scheduler_dra_bindingconditions_allocations_total":     1,
		"scheduler_dra_bindingconditions_wait_duration_seconds": 6,
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

// BenchmarkPod measures what counting costs for a pod that is placed at once.
func BenchmarkPod(b *testing.B) {
	metrics, err := prommetrics.New(prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	profile := metrics.Profile("default-scheduler")
	for b.Loop() {
		metrics.Handled("UnschedulablePodAdd", time.Microsecond)
		for _, point := range []scheduler.Point{scheduler.PreFilter, scheduler.Filter, scheduler.PreBind, scheduler.Bind} {
			profile.Ran(point, scheduler.Succeeded, time.Microsecond)
		}
		metrics.Decided(time.Microsecond)
		metrics.Handled("AssignedPodAdd", time.Microsecond)
		metrics.Attempt("default-scheduler", scheduler.Scheduled, time.Millisecond)
		metrics.Bound(1, time.Millisecond, false)
	}
}
