package endpointslicemirroring

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/controllers/internal/meter"
	"github.com/millrace/millrace/internal/controllers/internal/slice"
	"github.com/millrace/millrace/loop"
)

// Metrics counts the slices of Endpoints objects.
type Metrics struct {
	*slice.Metrics
	updated, skipped, took prometheus.Histogram
}

// NewMetrics makes the metrics.
func NewMetrics(m *meter.Maker) *Metrics {
	const subsystem = "endpoint_slice_mirroring_controller"
	return &Metrics{
		Metrics: slice.NewMetrics(m, subsystem),
		updated: m.Histogram(subsystem, "endpoints_updated_per_sync", "Number of endpoints that a sync changes.", slice.PerSync),
		skipped: m.Histogram(subsystem, "addresses_skipped_per_sync", "Number of addresses that are not mirrored because they are wrong or too many.", slice.PerSync),
		took:    m.Histogram(subsystem, "endpoints_sync_duration", "How long in seconds a sync of an Endpoints object takes.", prometheus.ExponentialBuckets(0.001, 2, 15)),
	}
}

// Synced counts a sync.
func (s *Metrics) Synced(key loop.Key, done slice.Sync) {
	s.Metrics.Synced(key, done)
	s.updated.Observe(float64(done.Updated))
	s.skipped.Observe(float64(done.Skipped))
	s.took.Observe(done.Took.Seconds())
}
