package endpointslice

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/controllers/internal/meter"
	"github.com/millrace/millrace/internal/controllers/internal/slice"
	"github.com/millrace/millrace/loop"
)

// Metrics counts the slices of Services.
type Metrics struct {
	*slice.Metrics
	succeeded, failed prometheus.Counter
	changes           *meter.Children[string, prometheus.Observer] // by traffic distribution
}

// NewMetrics makes the metrics.
func NewMetrics(m *meter.Maker) *Metrics {
	const subsystem, distribution = "endpoint_slice_controller", "traffic_distribution"
	syncs := m.Counters(subsystem, "syncs", "Number of syncs of Services.", "result")
	changes := m.Histograms(subsystem, "endpointslices_changed_per_sync", "Number of slices that a sync changes.", prometheus.DefBuckets, "topology", distribution)
	s := &Metrics{
		Metrics: slice.NewMetrics(m, subsystem), succeeded: syncs.WithLabelValues("success"), failed: syncs.WithLabelValues("error"),
		// Hints by the processors of zones are not given, so the topology is always disabled.
		changes: meter.ChildrenOf(func(d string) prometheus.Observer { return changes.WithLabelValues("Disabled", d) }),
	}
	services := meter.Gauge(subsystem, "services_count_by_traffic_distribution", "Number of Services with this trafficDistribution.", distribution)
	m.Scraped([]*prometheus.Desc{services}, func(set meter.Setter) {
		for d, n := range s.Distributions() {
			set(services, float64(n), d)
		}
	})
	return s
}

// Synced counts a sync.
func (s *Metrics) Synced(key loop.Key, done slice.Sync) {
	s.Metrics.Synced(key, done)
	s.changes.Of(done.Distribution).Observe(float64(done.Created + done.Changed + done.Deleted))
	if done.Err != nil {
		s.failed.Inc()
	} else {
		s.succeeded.Inc()
	}
}
