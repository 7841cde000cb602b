package attachdetach

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/controllers/internal/meter"
)

// Metrics counts attachments, and volumes when somebody asks.
type Metrics struct {
	meter.OnDemand[Census]
	forced *prometheus.CounterVec
}

// NewMetrics makes the metrics.
func NewMetrics(m *meter.Maker) *Metrics {
	a := &Metrics{forced: m.Counters("attach_detach_controller", "attachdetach_controller_forced_detaches",
		"Number of volumes that were detached from nodes that may still use them, by the reason.", "reason")}
	used := meter.Gauge("storage_count", "attachable_volumes_in_use", "Number of volumes that pods of a node use and that have to be attached.", "node", "volume_plugin")
	total := meter.Gauge("attachdetach_controller", "total_volumes", "Number of volumes that should be attached (desired_state_of_world) and that are (actual_state_of_world).", "plugin_name", "state")
	m.Scraped([]*prometheus.Desc{used, total}, func(set meter.Setter) {
		c, _ := a.Now()
		for use, n := range c.InUse {
			set(used, float64(n), use.Node, use.Plugin)
		}
		for plugin, n := range c.Wanted {
			set(total, float64(n), plugin, "desired_state_of_world")
		}
		for plugin, n := range c.Attached {
			set(total, float64(n), plugin, "actual_state_of_world")
		}
	})
	return a
}

// Forced counts a volume that was detached though its node may still use it. That is rare.
func (a *Metrics) Forced(why Force) { a.forced.WithLabelValues(string(why)).Inc() }
