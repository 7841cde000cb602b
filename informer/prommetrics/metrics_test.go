package prommetrics_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/informertest"
	"github.com/millrace/millrace/informer/prommetrics"
)

func TestAnInformersLifeCanBeReadFromItsMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := prommetrics.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		source := informertest.NewSource(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "one"}})
		source.Fail("watch", errors.New("connection refused"))
		pods := informer.New(source, informer.Options[*corev1.Pod]{Name: "pods", Metrics: metrics})
		pods.Handle(informer.Handler[*corev1.Pod]{Added: func(*corev1.Pod, bool) { panic("fault") }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- pods.Run(ctx) }()
		if err := pods.Synced(ctx); err != nil {
			t.Fatal(err)
		}
		source.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "two"}})
		synctest.Wait()
		cancel()
		<-ended
	})
	got := map[string]float64{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.Metric {
			if name := m.Label[0]; name.GetName() != "name" || name.GetValue() != "pods" || len(m.Label) != 1 {
				t.Errorf("%s has labels %v", family.GetName(), m.Label)
			}
			got[family.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetSummary().GetSampleSum()
		}
	}
	for name, want := range map[string]float64{"reflector_lists_total": 1, "reflector_items_per_list": 1, "reflector_watches_total": 1,
		"reflector_items_per_watch": 1, "reflector_failures_total": 1, "informer_objects": 2, "reflector_last_resource_version": 3,
		"informer_handler_panics_total": 2} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if _, err := prommetrics.New(registry); err == nil {
		t.Error("the same metrics were registered twice")
	}
}
