// Package prommetrics exports what informers do to Prometheus, under Kubernetes' names for reflector metrics. The only
// label is the informer's name, so there are as many series as different names.
package prommetrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/informer"
)

// shortWatch is the duration below which a watch that ends without an event counts as short.
const shortWatch = time.Second

// Metrics implements informer.Metrics. One serves any number of informers. New makes it.
type Metrics struct {
	lists, watches, shortWatches, failures, panics *prometheus.CounterVec
	listDuration, listItems                        *prometheus.SummaryVec
	watchDuration, watchItems                      *prometheus.SummaryVec
	version, objects                               *prometheus.GaugeVec
}

var _ informer.Metrics = (*Metrics)(nil)

// New registers the metrics. It returns an error if they have been registered already: share one Metrics instead.
func New(registerer prometheus.Registerer) (*Metrics, error) {
	label := []string{"name"}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, label)
	}
	summary := func(name, help string) *prometheus.SummaryVec {
		return prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: name, Help: help}, label)
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, label)
	}
	m := &Metrics{
		lists:         counter("reflector_lists_total", "Total number of complete lists, paged or streamed."),
		listDuration:  summary("reflector_list_duration_seconds", "How long a complete list took."),
		listItems:     summary("reflector_items_per_list", "How many objects a list had."),
		watches:       counter("reflector_watches_total", "Total number of watches that have ended."),
		shortWatches:  counter("reflector_short_watches_total", "Total number of watches that ended within a second and without an event."),
		watchDuration: summary("reflector_watch_duration_seconds", "How long a watch lasted."),
		watchItems:    summary("reflector_items_per_watch", "How many events a watch had."),
		version:       gauge("reflector_last_resource_version", "The resource version that the cache shows."),
		failures:      counter("reflector_failures_total", "Total number of lists and watches that failed."),
		objects:       gauge("informer_objects", "Number of objects in the cache."),
		panics:        counter("informer_handler_panics_total", "Total number of panics of handlers."),
	}
	for _, c := range []prometheus.Collector{m.lists, m.listDuration, m.listItems, m.watches, m.shortWatches, m.watchDuration,
		m.watchItems, m.version, m.failures, m.objects, m.panics} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Listed implements informer.Metrics.
func (m *Metrics) Listed(name string, items int, took time.Duration) {
	m.lists.WithLabelValues(name).Inc()
	m.listItems.WithLabelValues(name).Observe(float64(items))
	m.listDuration.WithLabelValues(name).Observe(took.Seconds())
}

// Watched implements informer.Metrics.
func (m *Metrics) Watched(name string, events int, took time.Duration) {
	m.watches.WithLabelValues(name).Inc()
	m.watchItems.WithLabelValues(name).Observe(float64(events))
	m.watchDuration.WithLabelValues(name).Observe(took.Seconds())
	if events == 0 && took < shortWatch {
		m.shortWatches.WithLabelValues(name).Inc()
	}
}

// Failed implements informer.Metrics.
func (m *Metrics) Failed(name string) { m.failures.WithLabelValues(name).Inc() }

// Moved implements informer.Metrics.
func (m *Metrics) Moved(name string, resourceVersion uint64, objects int) {
	m.version.WithLabelValues(name).Set(float64(resourceVersion))
	m.objects.WithLabelValues(name).Set(float64(objects))
}

// Panicked implements informer.Metrics.
func (m *Metrics) Panicked(name string) { m.panics.WithLabelValues(name).Inc() }
