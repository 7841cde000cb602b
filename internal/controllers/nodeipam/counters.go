package nodeipam

import (
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/controllers/internal/meter"
)

// Metrics counts ranges. Its methods are called once for each node.
type Metrics struct {
	meter.OnDemand[map[netip.Prefix]Usage]
	assigned, released *prometheus.CounterVec
	looked             *prometheus.HistogramVec
}

// NewMetrics makes the metrics.
func NewMetrics(m *meter.Maker) *Metrics {
	const subsystem, label = "node_ipam_controller", "clusterCIDR"
	n := &Metrics{
		assigned: m.Counters(subsystem, "cidrset_cidrs_allocations_total", "Number of ranges that nodes were assigned.", label),
		released: m.Counters(subsystem, "cidrset_cidrs_releases_total", "Number of ranges whose nodes are gone.", label),
		looked:   m.Histograms(subsystem, "cidrset_allocation_tries_per_request", "Number of ranges that were looked at to find a free one.", prometheus.ExponentialBuckets(1, 5, 5), label),
	}
	usage := meter.Gauge(subsystem, "cidrset_usage_cidrs", "Fraction of the ranges that nodes have.", label)
	most := meter.Gauge(subsystem, "cirdset_max_cidrs", "Number of ranges that there are.", label) // this is how Kubernetes spells it
	m.Scraped([]*prometheus.Desc{usage, most}, func(set meter.Setter) {
		all, _ := n.Now()
		for from, u := range all {
			set(usage, u.Used/u.All, from.String())
			set(most, u.All, from.String())
		}
	})
	return n
}

// Assigned counts a range that a node was assigned, with how many were looked at.
func (n *Metrics) Assigned(from netip.Prefix, looked int) {
	n.assigned.WithLabelValues(from.String()).Inc()
	n.looked.WithLabelValues(from.String()).Observe(float64(looked))
}

// Released counts a range whose node is gone.
func (n *Metrics) Released(from netip.Prefix) { n.released.WithLabelValues(from.String()).Inc() }
