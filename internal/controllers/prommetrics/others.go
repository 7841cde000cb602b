package prommetrics

import (
	"errors"
	"iter"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/controllers/internal/meter"
	"github.com/millrace/millrace/internal/controllers/podgc"
	"github.com/millrace/millrace/internal/controllers/statefulset"
	"github.com/millrace/millrace/loop"
)

// evicted returns how the pods are counted that a loop deletes because of taints.
func evicted(m *meter.Maker, subsystem string) func(late time.Duration) {
	number := m.Counter(subsystem, "pod_deletions_total", "Number of pods that were deleted because of taints.")
	took := m.Histogram(subsystem, "pod_deletion_duration_seconds", "How long in seconds after its time a pod was deleted.",
		[]float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240})
	return func(late time.Duration) {
		number.Inc()
		took.Observe(late.Seconds())
	}
}

// published returns how the syncs of a loop are counted that publishes certificates.
func published(m *meter.Maker, subsystem string) func(err error, took time.Duration) {
	number := m.Counters(subsystem, "sync_total", "Number of syncs, by the result as an HTTP status.", "code")
	duration := m.Histograms(subsystem, "sync_duration_seconds", "How long in seconds a sync takes.", prometheus.ExponentialBuckets(0.001, 2, 15), "code")
	codes := meter.ChildrenOf(func(code string) meter.Timed {
		return meter.Timed{Number: number.WithLabelValues(code), Took: duration.WithLabelValues(code)}
	})
	return func(err error, took time.Duration) {
		if !errors.Is(err, loop.ErrBehind) { // then the sync has not begun
			codes.Of(codeOf(err)).Add(took)
		}
	}
}

// collected returns how the pods are counted that nothing else deletes.
func collected(m *meter.Maker) func(namespace string, why podgc.Why, err error) {
	const subsystem = "pod_gc_collector"
	number := m.Counters(subsystem, "force_delete_pods_total", "Number of attempts to delete a pod.", "namespace", "reason")
	failures := m.Counters(subsystem, "force_delete_pod_errors_total", "Number of those attempts that have failed.", "namespace", "reason")
	return func(namespace string, why podgc.Why, err error) { // it is called every 20 s at most, and not often then
		number.WithLabelValues(namespace, string(why)).Inc()
		if err != nil {
			failures.WithLabelValues(namespace, string(why)).Inc()
		}
	}
}

// claimed returns how the claims are counted that are made for pods.
func claimed(m *meter.Maker) func(err error) {
	const subsystem = "ephemeral_volume_controller"
	number := m.Counter(subsystem, "create_total", "Number of attempts to make a claim.")
	failures := m.Counter(subsystem, "create_failures_total", "Number of those attempts that have failed.")
	return func(err error) {
		number.Inc()
		if err != nil {
			failures.Inc()
		}
	}
}

// unavailable returns how the unavailable pods of StatefulSets are counted.
func unavailable(m *meter.Maker) func(now func() iter.Seq[statefulset.Unavailable]) {
	const subsystem = "statefulset_controller"
	labels := []string{"statefulset_namespace", "statefulset_name", "pod_management_policy"}
	most := meter.Gauge(subsystem, "statefulset_max_unavailable", "Number of pods that may be unavailable during a rolling update.", labels...)
	are := meter.Gauge(subsystem, "statefulset_unavailable_replicas", "Number of pods that are not available.", labels...)
	sets := &meter.OnDemand[iter.Seq[statefulset.Unavailable]]{}
	m.Scraped([]*prometheus.Desc{most, are}, func(set meter.Setter) {
		all, ok := sets.Now()
		if !ok {
			return
		}
		for u := range all {
			set(most, float64(u.Max), u.Key.Namespace, u.Key.Name, string(u.Policy))
			set(are, float64(u.Pods), u.Key.Namespace, u.Key.Name, string(u.Policy))
		}
	})
	return sets.Count
}

// codeOf returns the HTTP status of a result.
func codeOf(err error) string {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return "200"
	case errors.As(err, &status):
		return strconv.Itoa(int(status.Status().Code))
	}
	return "500"
}
