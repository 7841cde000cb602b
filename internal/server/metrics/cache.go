package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/server/watchcache"
)

// cached reads the counters of a watch cache when metrics are collected.
type cached struct{ cache *watchcache.Cache }

var kindLabels = []string{"group", "resource"}

var (
	storageObjects  = describe("apiserver_storage_objects", "Objects that are stored, by kind.", "resource")
	resourceObjects = describe("apiserver_resource_objects", "Objects that are stored, by kind.", kindLabels...)
	eventsReceived  = describe("apiserver_watch_cache_events_received_total", "Changes that the watch cache has received.", kindLabels...)
	cacheRevision   = describe("apiserver_watch_cache_resource_version", "The revision that the watch cache has reached.", kindLabels...)
	cacheCapacity   = describe("apiserver_watch_cache_capacity", "Changes that the watch cache remembers.", kindLabels...)
	windowBytes     = describe("millrace_watch_cache_window_bytes", "Bytes of the changes that the watch cache remembers.", kindLabels...)
	cursors         = describe("millrace_watch_cache_cursors", "Watches that read from the watch cache.", kindLabels...)
	unreadable      = describe("millrace_watch_cache_unreadable_total", "Stored versions that could not be read.", kindLabels...)
	unreadableNow   = describe("millrace_watch_cache_unreadable_objects", "Stored objects that cannot be read: lists and watches omit them.", kindLabels...)
	initializations = describe("apiserver_watch_cache_initializations_total", "How often the watch cache was filled, which is done for all kinds at once.", kindLabels...)
	resumes         = describe("millrace_watch_cache_resumes_total", "How often the log of the store was lost and resumed where it was.")
	batches         = describe("millrace_watch_cache_batches_total", "Batches of the log of the store, including progress reports.")
	forms           = describe("millrace_watch_cache_forms", "Encoded forms of objects that are kept.")
	formBytes       = describe("millrace_watch_cache_form_bytes", "Bytes of encoded forms of objects that are kept.")
)

// Describe implements prometheus.Collector.
func (c *cached) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{storageObjects, resourceObjects, eventsReceived, cacheRevision, cacheCapacity, windowBytes, cursors, unreadable, unreadableNow,
		initializations, resumes, batches, forms, formBytes} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *cached) Collect(out chan<- prometheus.Metric) {
	s := c.cache.Stats()
	for _, k := range c.cache.Kinds() {
		stats := k.Stats()
		resource, group, _ := strings.Cut(k.Name(), ".")
		value := func(d *prometheus.Desc, t prometheus.ValueType, v float64) {
			out <- prometheus.MustNewConstMetric(d, t, v, group, resource)
		}
		out <- prometheus.MustNewConstMetric(storageObjects, prometheus.GaugeValue, float64(stats.Objects), k.Name())
		value(resourceObjects, prometheus.GaugeValue, float64(stats.Objects))
		value(eventsReceived, prometheus.CounterValue, float64(stats.Events))
		value(cacheRevision, prometheus.GaugeValue, float64(s.Revision))
		value(cacheCapacity, prometheus.GaugeValue, float64(stats.WindowEvents))
		value(windowBytes, prometheus.GaugeValue, float64(stats.WindowBytes))
		value(cursors, prometheus.GaugeValue, float64(stats.Cursors))
		value(initializations, prometheus.CounterValue, float64(1+s.Refills))
		value(unreadable, prometheus.CounterValue, float64(stats.Unreadable))
		value(unreadableNow, prometheus.GaugeValue, float64(stats.UnreadableNow))
	}
	for d, v := range map[*prometheus.Desc]int64{resumes: s.Resumes, batches: s.Batches} {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v))
	}
	out <- prometheus.MustNewConstMetric(forms, prometheus.GaugeValue, float64(s.Forms))
	out <- prometheus.MustNewConstMetric(formBytes, prometheus.GaugeValue, float64(s.FormBytes))
}
