package nodelifecycle

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/controllers/internal/meter"
)

// Metrics counts nodes and evictions.
type Metrics struct {
	meter.OnDemand[map[string]Zone]
	evictions *prometheus.CounterVec
	examined  prometheus.Histogram
	all       prometheus.Histogram

	mu   sync.Mutex    // guards what follows
	left int           // looks until there were as many as there are nodes
	took time.Duration // by those before
}

// NewMetrics makes the metrics.
func NewMetrics(m *meter.Maker) *Metrics {
	const subsystem = "node_collector"
	n := &Metrics{
		evictions: m.Counters(subsystem, "evictions_total", "Number of nodes of a zone that were given up, so that their pods are evicted.", "zone"),
		examined:  m.Histogram(subsystem, "update_node_health_duration_seconds", "How long in seconds a look at one node takes.", prometheus.ExponentialBuckets(0.001, 4, 8)),
		all: m.Histogram(subsystem, "update_all_nodes_health_duration_seconds", "How long in seconds as many looks take as there are nodes, which are looked at one by one when that is due.",
			prometheus.ExponentialBuckets(0.01, 4, 8)),
	}
	size := meter.Gauge(subsystem, "zone_size", "Number of nodes of a zone.", "zone")
	unhealthy := meter.Gauge(subsystem, "unhealthy_nodes_in_zone", "Number of nodes of a zone that are not ready.", "zone")
	health := meter.Gauge(subsystem, "zone_health", "Percentage of a zone's nodes that are ready.", "zone")
	m.Scraped([]*prometheus.Desc{size, unhealthy, health}, func(set meter.Setter) {
		zones, _ := n.Now()
		for zone, z := range zones {
			n.evictions.WithLabelValues(zone) // a zone without evictions is seen as well
			all := float64(z.Ready + z.Failing)
			set(size, all, zone)
			set(unhealthy, float64(z.Failing), zone)
			set(health, 100*float64(z.Ready)/all, zone)
		}
	})
	return n
}

// Evicted counts a node of a zone that was given up, so that its pods are evicted. It is rare.
func (n *Metrics) Evicted(zone string) { n.evictions.WithLabelValues(zone).Inc() }

// Examined counts a look at a node.
func (n *Metrics) Examined(took time.Duration) {
	n.examined.Observe(took.Seconds())
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.left == 0 {
		zones, _ := n.Now()
		for _, z := range zones {
			n.left += z.Ready + z.Failing
		}
		n.took = 0
	}
	n.took += took
	if n.left--; n.left == 0 {
		n.all.Observe(n.took.Seconds())
	}
	n.left = max(n.left, 0)
}
