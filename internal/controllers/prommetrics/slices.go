package prommetrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/controllers/internal/slice"
	"github.com/millrace/millrace/loop"
)

// slices counts EndpointSlices. It is the Metrics of endpointslice, and a part of that of endpointslicemirroring.
type slices struct {
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

// perSync are the buckets for numbers of endpoints.
var perSync = prometheus.ExponentialBuckets(2, 2, 15)

func newSlices(m *maker, subsystem string) *slices {
	changes := m.counters(subsystem, "changes", "Number of slices that were made, changed and deleted.", "operation")
	s := &slices{
		all:     map[loop.Key]sliced{},
		added:   m.histogram(subsystem, "endpoints_added_per_sync", "Number of endpoints that a sync adds.", perSync),
		removed: m.histogram(subsystem, "endpoints_removed_per_sync", "Number of endpoints that a sync removes.", perSync),
		created: changes.WithLabelValues("create"), changed: changes.WithLabelValues("update"), deleted: changes.WithLabelValues("delete"),
	}
	desired := gauge(subsystem, "endpoints_desired", "Number of endpoints that should exist.")
	number := gauge(subsystem, "num_endpoint_slices", "Number of slices.")
	ideal := gauge(subsystem, "desired_endpoint_slices", "Number of slices that the endpoints would fill.")
	m.add(&scraped{[]*prometheus.Desc{desired, number, ideal}, func(set setter) {
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
	}})
	return s
}

// Synced implements slice.Metrics.
func (s *slices) Synced(key loop.Key, done slice.Sync) {
	s.added.Observe(float64(done.Added))
	s.removed.Observe(float64(done.Removed))
	s.created.Add(float64(done.Created))
	s.changed.Add(float64(done.Changed))
	s.deleted.Add(float64(done.Deleted))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[key] = sliced{done.Endpoints, done.Slices, done.Ideal, done.Distribution}
}

// Gone implements slice.Metrics.
func (s *slices) Gone(key loop.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, key)
}

// serviceSlices is the slice.Metrics of endpointslice.
type serviceSlices struct {
	*slices
	succeeded, failed prometheus.Counter
	changes           *children[string, prometheus.Observer] // by traffic distribution
}

func newServiceSlices(m *maker) *serviceSlices {
	const subsystem, distribution = "endpoint_slice_controller", "traffic_distribution"
	syncs := m.counters(subsystem, "syncs", "Number of syncs of Services.", "result")
	changes := m.histograms(subsystem, "endpointslices_changed_per_sync", "Number of slices that a sync changes.", prometheus.DefBuckets, "topology", distribution)
	s := &serviceSlices{
		slices: newSlices(m, subsystem), succeeded: syncs.WithLabelValues("success"), failed: syncs.WithLabelValues("error"),
		// Hints by the processors of zones are not given, so the topology is always disabled.
		changes: childrenOf(func(d string) prometheus.Observer { return changes.WithLabelValues("Disabled", d) }),
	}
	services := gauge(subsystem, "services_count_by_traffic_distribution", "Number of Services with this trafficDistribution.", distribution)
	m.add(&scraped{[]*prometheus.Desc{services}, func(set setter) {
		s.mu.Lock()
		counts := map[string]int{}
		for _, one := range s.all {
			if one.distribution != "" {
				counts[one.distribution]++
			}
		}
		s.mu.Unlock()
		for d, n := range counts {
			set(services, float64(n), d)
		}
	}})
	return s
}

// Synced implements slice.Metrics.
func (s *serviceSlices) Synced(key loop.Key, done slice.Sync) {
	s.slices.Synced(key, done)
	s.changes.of(done.Distribution).Observe(float64(done.Created + done.Changed + done.Deleted))
	if done.Err != nil {
		s.failed.Inc()
	} else {
		s.succeeded.Inc()
	}
}

// mirrorSlices is the slice.Metrics of endpointslicemirroring.
type mirrorSlices struct {
	*slices
	updated, skipped, took prometheus.Histogram
}

func newMirrorSlices(m *maker) *mirrorSlices {
	const subsystem = "endpoint_slice_mirroring_controller"
	return &mirrorSlices{
		slices:  newSlices(m, subsystem),
		updated: m.histogram(subsystem, "endpoints_updated_per_sync", "Number of endpoints that a sync changes.", perSync),
		skipped: m.histogram(subsystem, "addresses_skipped_per_sync", "Number of addresses that are not mirrored because they are wrong or too many.", perSync),
		took:    m.histogram(subsystem, "endpoints_sync_duration", "How long in seconds a sync of an Endpoints object takes.", prometheus.ExponentialBuckets(0.001, 2, 15)),
	}
}

// Synced implements slice.Metrics.
func (s *mirrorSlices) Synced(key loop.Key, done slice.Sync) {
	s.slices.Synced(key, done)
	s.updated.Observe(float64(done.Updated))
	s.skipped.Observe(float64(done.Skipped))
	s.took.Observe(done.Took.Seconds())
}
