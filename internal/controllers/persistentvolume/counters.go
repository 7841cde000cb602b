package persistentvolume

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/controllers/internal/meter"
)

// Metrics counts volumes and claims.
type Metrics struct {
	meter.OnDemand[Census]
	classified, notClassified prometheus.Counter
}

// NewMetrics makes the metrics.
func NewMetrics(m *meter.Maker) *Metrics {
	const subsystem = "pv_collector"
	v := &Metrics{
		classified:    m.Counter("", "retroactive_storageclass_total", "Number of attempts to give a claim without a class the default one."),
		notClassified: m.Counter("", "retroactive_storageclass_errors_total", "Number of those attempts that have failed."),
	}
	perClaim := []string{"namespace", "storage_class", "volume_attributes_class"}
	all := meter.Gauge(subsystem, "total_pv_count", "Number of persistent volumes, by the plugin that mounts them and their mode.", "plugin_name", "volume_mode")
	bound := meter.Gauge(subsystem, "bound_pv_count", "Number of persistent volumes that are bound.", "storage_class")
	unbound := meter.Gauge(subsystem, "unbound_pv_count", "Number of persistent volumes that are not bound.", "storage_class")
	boundClaims := meter.Gauge(subsystem, "bound_pvc_count", "Number of persistent volume claims that are bound.", perClaim...)
	unboundClaims := meter.Gauge(subsystem, "unbound_pvc_count", "Number of persistent volume claims that are not bound.", perClaim...)
	m.Scraped([]*prometheus.Desc{all, bound, unbound, boundClaims, unboundClaims}, func(set meter.Setter) {
		c, _ := v.Now()
		for sort, n := range c.Volumes {
			set(all, float64(n), sort.Plugin, string(sort.Mode))
		}
		for d, counts := range map[*prometheus.Desc]map[string]int{bound: c.Bound, unbound: c.Unbound} {
			for class, n := range counts {
				set(d, float64(n), class)
			}
		}
		for d, counts := range map[*prometheus.Desc]map[ClaimSort]int{boundClaims: c.BoundClaims, unboundClaims: c.UnboundClaims} {
			for sort, n := range counts {
				set(d, float64(n), sort.Namespace, sort.Class, sort.Attributes)
			}
		}
	})
	return v
}

// Classified counts an attempt to give a claim without a class the default one.
func (v *Metrics) Classified(err error) {
	v.classified.Inc()
	if err != nil {
		v.notClassified.Inc()
	}
}
