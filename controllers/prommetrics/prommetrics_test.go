package prommetrics_test

import (
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/millrace/millrace/controllers"
	"github.com/millrace/millrace/controllers/nodelifecycle"
	"github.com/millrace/millrace/controllers/prommetrics"
)

func TestLoopsAreMeasuredUnderKubernetesNames(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	var o controllers.Options
	if err := prommetrics.Measure(&o, registry); err != nil {
		t.Fatal(err)
	}
	o.Jobs.Metrics.Finished(batchv1.IndexedCompletion, true, "CompletionsReached")
	o.Jobs.Metrics.Finished(batchv1.IndexedCompletion, true, "CompletionsReached")
	o.Jobs.Metrics.Finished(batchv1.NonIndexedCompletion, false, "BackoffLimitExceeded")
	o.Jobs.Metrics.Pods(batchv1.NonIndexedCompletion, 3, 1)
	o.CronJobs.Metrics.Started(5 * time.Second)
	o.Nodes.Metrics.Evicted("a")
	o.Nodes.Metrics.Count(func() map[string]nodelifecycle.Zone {
		return map[string]nodelifecycle.Zone{"a": {Ready: 3, Failing: 1}}
	})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.Metric {
			name := family.GetName()
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			if value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum(); value != 0 {
				got[name] = value
			}
		}
	}
	want := map[string]float64{
		"job_controller_jobs_finished_total Indexed CompletionsReached succeeded":   2,
		"job_controller_jobs_finished_total NonIndexed BackoffLimitExceeded failed": 1,
		"job_controller_job_pods_finished_total NonIndexed succeeded":               3,
		"job_controller_job_pods_finished_total NonIndexed failed":                  1,
		"cronjob_controller_job_creation_skew_duration_seconds":                     5,
		"node_collector_evictions_total a":                                          1,
		"node_collector_zone_size a":                                                4,
		"node_collector_unhealthy_nodes_in_zone a":                                  1,
		"node_collector_zone_health a":                                              75,
	}
	if !maps.Equal(got, want) {
		t.Errorf("metrics\n%v\nwant\n%v", got, want)
	}
}
