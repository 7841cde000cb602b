package slice

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/controllers/internal/meter"
	"github.com/millrace/millrace/loop"
)

// Metrics counts EndpointSlices. It is a part of the Metrics of endpointslice and of endpointslicemirroring.
type Metrics struct {
	added, removed            prometheus.Histogram
	created, changed, deleted prometheus.Counter

	mu  sync.Mutex
	all map[loop.Key]sliced // guarded by mu
}

// sliced is what the last sync of a Service or of an Endpoints object has found.
type sliced struct {
	endpoints, slices, ideal int
	distribution             string
}

// PerSync are the buckets for numbers of endpoints.
var PerSync = prometheus.ExponentialBuckets(2, 2, 15)

// NewMetrics makes the metrics.
func NewMetrics(m *meter.Maker, subsystem string) *Metrics {
	changes := m.Counters(subsystem, "changes", "Number of slices that were made, changed and deleted.", "operation")
	s := &Metrics{
		all:     map[loop.Key]sliced{},
		added:   m.Histogram(subsystem, "endpoints_added_per_sync", "Number of endpoints that a sync adds.", PerSync),
		removed: m.Histogram(subsystem, "endpoints_removed_per_sync", "Number of endpoints that a sync removes.", PerSync),
		created: changes.WithLabelValues("create"), changed: changes.WithLabelValues("update"), deleted: changes.WithLabelValues("delete"),
	}
	desired := meter.Gauge(subsystem, "endpoints_desired", "Number of endpoints that should exist.")
	number := meter.Gauge(subsystem, "num_endpoint_slices", "Number of slices.")
	ideal := meter.Gauge(subsystem, "desired_endpoint_slices", "Number of slices that the endpoints would fill.")
	m.Scraped([]*prometheus.Desc{desired, number, ideal}, func(set meter.Setter) {
		s.mu.Lock()
		var sum sliced
		for _, one := range s.all {
			sum.endpoints += one.endpoints
			sum.slices += one.slices
			sum.ideal += one.ideal
		}
		s.mu.Unlock()
		set(desired, float64(sum.endpoints))
		set(number, float64(sum.slices))
		set(ideal, float64(sum.ideal))
	})
	return s
}

// Synced counts a sync.
func (s *Metrics) Synced(key loop.Key, done Sync) {
	s.added.Observe(float64(done.Added))
	s.removed.Observe(float64(done.Removed))
	s.created.Add(float64(done.Created))
	s.changed.Add(float64(done.Changed))
	s.deleted.Add(float64(done.Deleted))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[key] = sliced{done.Endpoints, done.Slices, done.Ideal, done.Distribution}
}

// Gone says that there is nothing to have slices for any more.
func (s *Metrics) Gone(key loop.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, key)
}

// Distributions counts the Services with a trafficDistribution.
func (s *Metrics) Distributions() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[string]int{}
	for _, one := range s.all {
		if one.distribution != "" {
			counts[one.distribution]++
		}
	}
	return counts
}
