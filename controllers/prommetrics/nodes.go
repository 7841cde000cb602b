package prommetrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/controllers/nodelifecycle"
)

// nodes is a nodelifecycle.Metrics and a Prometheus collector.
type nodes struct {
	evictions *prometheus.CounterVec

	mu    sync.Mutex // guards count
	count func() map[string]nodelifecycle.Zone
}

var (
	perZone   = []string{"zone"}
	zoneSize  = prometheus.NewDesc("node_collector_zone_size", "Number of nodes of a zone.", perZone, nil)
	unhealthy = prometheus.NewDesc("node_collector_unhealthy_nodes_in_zone", "Number of nodes of a zone that are not ready.", perZone, nil)
	health    = prometheus.NewDesc("node_collector_zone_health", "Percentage of a zone's nodes that are ready.", perZone, nil)
)

func newNodes() *nodes {
	return &nodes{evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: "node_collector", Name: "evictions_total", Help: "Number of nodes of a zone that were given up, so that their pods are evicted.",
	}, perZone)}
}

// Count implements nodelifecycle.Metrics.
func (n *nodes) Count(now func() map[string]nodelifecycle.Zone) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count = now
}

// Evicted implements nodelifecycle.Metrics. It is rare.
func (n *nodes) Evicted(zone string) { n.evictions.WithLabelValues(zone).Inc() }

// Describe implements prometheus.Collector.
func (n *nodes) Describe(to chan<- *prometheus.Desc) {
	n.evictions.Describe(to)
	for _, d := range []*prometheus.Desc{zoneSize, unhealthy, health} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (n *nodes) Collect(to chan<- prometheus.Metric) {
	n.evictions.Collect(to)
	n.mu.Lock()
	count := n.count
	n.mu.Unlock()
	if count == nil {
		return
	}
	for zone, z := range count() {
		gauge := func(d *prometheus.Desc, value float64) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, zone)
		}
		all := float64(z.Ready + z.Failing)
		gauge(zoneSize, all)
		gauge(unhealthy, float64(z.Failing))
		gauge(health, 100*float64(z.Ready)/all)
	}
}
