package prommetrics

import (
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/controllers/nodeipam"
	"github.com/millrace/millrace/internal/controllers/nodelifecycle"
)

// nodes is a nodelifecycle.Metrics.
type nodes struct {
	onDemand[map[string]nodelifecycle.Zone]
	evictions *prometheus.CounterVec
	examined  prometheus.Histogram
	all       prometheus.Histogram

	mu   sync.Mutex    // guards what follows
	left int           // looks until there were as many as there are nodes
	took time.Duration // by those before
}

func newNodes(m *maker) *nodes {
	const subsystem = "node_collector"
	n := &nodes{
		evictions: m.counters(subsystem, "evictions_total", "Number of nodes of a zone that were given up, so that their pods are evicted.", "zone"),
		examined:  m.histogram(subsystem, "update_node_health_duration_seconds", "How long in seconds a look at one node takes.", prometheus.ExponentialBuckets(0.001, 4, 8)),
		all: m.histogram(subsystem, "update_all_nodes_health_duration_seconds", "How long in seconds as many looks take as there are nodes, which are looked at one by one when that is due.",
			prometheus.ExponentialBuckets(0.01, 4, 8)),
	}
	size := gauge(subsystem, "zone_size", "Number of nodes of a zone.", "zone")
	unhealthy := gauge(subsystem, "unhealthy_nodes_in_zone", "Number of nodes of a zone that are not ready.", "zone")
	health := gauge(subsystem, "zone_health", "Percentage of a zone's nodes that are ready.", "zone")
	m.add(&scraped{[]*prometheus.Desc{size, unhealthy, health}, func(set setter) {
		zones, _ := n.count()
		for zone, z := range zones {
			n.evictions.WithLabelValues(zone) // a zone without evictions is seen as well
			all := float64(z.Ready + z.Failing)
			set(size, all, zone)
			set(unhealthy, float64(z.Failing), zone)
			set(health, 100*float64(z.Ready)/all, zone)
		}
	}})
	return n
}

// Evicted implements nodelifecycle.Metrics. It is rare.
func (n *nodes) Evicted(zone string) { n.evictions.WithLabelValues(zone).Inc() }

// Examined implements nodelifecycle.Metrics.
func (n *nodes) Examined(took time.Duration) {
	n.examined.Observe(took.Seconds())
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.left == 0 {
		zones, _ := n.count()
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

// ranges is a nodeipam.Metrics. Its methods are called once for each node.
type ranges struct {
	onDemand[map[netip.Prefix]nodeipam.Usage]
	assigned, released *prometheus.CounterVec
	looked             *prometheus.HistogramVec
}

func newRanges(m *maker) *ranges {
	const subsystem, label = "node_ipam_controller", "clusterCIDR"
	n := &ranges{
		assigned: m.counters(subsystem, "cidrset_cidrs_allocations_total", "Number of ranges that nodes were assigned.", label),
		released: m.counters(subsystem, "cidrset_cidrs_releases_total", "Number of ranges whose nodes are gone.", label),
		looked:   m.histograms(subsystem, "cidrset_allocation_tries_per_request", "Number of ranges that were looked at to find a free one.", prometheus.ExponentialBuckets(1, 5, 5), label),
	}
	usage := gauge(subsystem, "cidrset_usage_cidrs", "Fraction of the ranges that nodes have.", label)
	most := gauge(subsystem, "cirdset_max_cidrs", "Number of ranges that there are.", label) // this is how Kubernetes spells it
	m.add(&scraped{[]*prometheus.Desc{usage, most}, func(set setter) {
		all, _ := n.count()
		for from, u := range all {
			set(usage, u.Used/u.All, from.String())
			set(most, u.All, from.String())
		}
	}})
	return n
}

// Assigned implements nodeipam.Metrics.
func (n *ranges) Assigned(from netip.Prefix, looked int) {
	n.assigned.WithLabelValues(from.String()).Inc()
	n.looked.WithLabelValues(from.String()).Observe(float64(looked))
}

// Released implements nodeipam.Metrics.
func (n *ranges) Released(from netip.Prefix) { n.released.WithLabelValues(from.String()).Inc() }
