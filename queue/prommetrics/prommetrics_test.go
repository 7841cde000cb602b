package prommetrics_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/queue"
	"github.com/millrace/millrace/queue/prommetrics"
)

func TestMetricsCarryKubernetesNamesAndTheQueuesState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		metrics, err := prommetrics.New(registry)
		if err != nil {
			t.Fatal(err)
		}
		q := queue.New(queue.Options[string]{Name: "pods", Metrics: metrics})
		q.Add("a")
		q.Add("b")
		q.Add("c")
		time.Sleep(time.Second)
		done, _ := q.Get(t.Context())
		time.Sleep(2 * time.Second)
		q.AddRateLimited(done)
		q.Done(done)
		q.Get(t.Context())
		time.Sleep(3 * time.Second)

		want := map[string]float64{
			"workqueue_adds_total":                        4, // the retry is ready by now
			"workqueue_retries_total":                     1,
			"workqueue_depth":                             2,
			"workqueue_unfinished_work_seconds":           3,
			"workqueue_longest_running_processor_seconds": 3,
			"workqueue_queue_duration_seconds":            1 + 3,
			"workqueue_work_duration_seconds":             2,
		}
		got := gather(t, registry)
		if len(got) != len(want) {
			t.Errorf("there are %d metrics, want %d: %v", len(got), len(want), got)
		}
		for name, value := range want {
			if got[name] != value {
				t.Errorf("%s is %v, want %v", name, got[name], value)
			}
		}
	})
}

// gather returns the single series of each metric; of histograms the sum.
func gather(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		if label := m.GetLabel()[0]; label.GetName() != "name" || label.GetValue() != "pods" {
			t.Errorf("%s is labelled %v", f.GetName(), label)
		}
		values[f.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
	}
	return values
}
