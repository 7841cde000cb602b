package prommetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/controllers/attachdetach"
	"github.com/millrace/millrace/internal/controllers/persistentvolume"
)

// volumes is a persistentvolume.Metrics.
type volumes struct {
	onDemand[persistentvolume.Census]
	classified, notClassified prometheus.Counter
}

func newVolumes(m *maker) *volumes {
	const subsystem = "pv_collector"
	v := &volumes{
		classified:    m.counter("", "retroactive_storageclass_total", "Number of attempts to give a claim without a class the default one."),
		notClassified: m.counter("", "retroactive_storageclass_errors_total", "Number of those attempts that have failed."),
	}
	perClaim := []string{"namespace", "storage_class", "volume_attributes_class"}
	all := gauge(subsystem, "total_pv_count", "Number of persistent volumes, by the plugin that mounts them and their mode.", "plugin_name", "volume_mode")
	bound := gauge(subsystem, "bound_pv_count", "Number of persistent volumes that are bound.", "storage_class")
	unbound := gauge(subsystem, "unbound_pv_count", "Number of persistent volumes that are not bound.", "storage_class")
	boundClaims := gauge(subsystem, "bound_pvc_count", "Number of persistent volume claims that are bound.", perClaim...)
	unboundClaims := gauge(subsystem, "unbound_pvc_count", "Number of persistent volume claims that are not bound.", perClaim...)
	m.add(&scraped{[]*prometheus.Desc{all, bound, unbound, boundClaims, unboundClaims}, func(set setter) {
		c, _ := v.count()
		for sort, n := range c.Volumes {
			set(all, float64(n), sort.Plugin, string(sort.Mode))
		}
		for d, counts := range map[*prometheus.Desc]map[string]int{bound: c.Bound, unbound: c.Unbound} {
			for class, n := range counts {
				set(d, float64(n), class)
			}
		}
		for d, counts := range map[*prometheus.Desc]map[persistentvolume.ClaimSort]int{boundClaims: c.BoundClaims, unboundClaims: c.UnboundClaims} {
			for sort, n := range counts {
				set(d, float64(n), sort.Namespace, sort.Class, sort.Attributes)
			}
		}
	}})
	return v
}

// Classified implements persistentvolume.Metrics.
func (v *volumes) Classified(err error) {
	v.classified.Inc()
	if err != nil {
		v.notClassified.Inc()
	}
}

// attachments is an attachdetach.Metrics.
type attachments struct {
	onDemand[attachdetach.Census]
	forced *prometheus.CounterVec
}

func newAttachments(m *maker) *attachments {
	a := &attachments{forced: m.counters("attach_detach_controller", "attachdetach_controller_forced_detaches",
		"Number of volumes that were detached from nodes that may still use them, by the reason.", "reason")}
	used := gauge("storage_count", "attachable_volumes_in_use", "Number of volumes that pods of a node use and that have to be attached.", "node", "volume_plugin")
	total := gauge("attachdetach_controller", "total_volumes", "Number of volumes that should be attached (desired_state_of_world) and that are (actual_state_of_world).", "plugin_name", "state")
	m.add(&scraped{[]*prometheus.Desc{used, total}, func(set setter) {
		c, _ := a.count()
		for use, n := range c.InUse {
			set(used, float64(n), use.Node, use.Plugin)
		}
		for plugin, n := range c.Wanted {
			set(total, float64(n), plugin, "desired_state_of_world")
		}
		for plugin, n := range c.Attached {
			set(total, float64(n), plugin, "actual_state_of_world")
		}
	}})
	return a
}

// Forced implements attachdetach.Metrics. It is rare.
func (a *attachments) Forced(why attachdetach.Force) { a.forced.WithLabelValues(string(why)).Inc() }
