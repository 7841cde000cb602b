package deviceplugin

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
)

// metrics count the plugins that register and the time that they take. They are a prometheus.Collector, with
// Kubernetes' names.
type metrics struct {
	registrations *prometheus.CounterVec
	allocations   *prometheus.HistogramVec
}

func newMetrics() metrics {
	label := []string{"resource_name"}
	return metrics{
		registrations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_device_plugin_registration_total", Help: "Cumulative number of device plugin registrations. Broken down by resource name.",
		}, label),
		allocations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_device_plugin_alloc_duration_seconds", Help: "Duration in seconds to serve a device plugin Allocation request. Broken down by resource name.",
			Buckets: prometheus.DefBuckets,
		}, label),
	}
}

func (m metrics) registered(resource string) { m.registrations.WithLabelValues(resource).Inc() }

func (m metrics) allocated(name corev1.ResourceName, took time.Duration) {
	m.allocations.WithLabelValues(string(name)).Observe(took.Seconds())
}

// Describe implements prometheus.Collector.
func (p *Plugins) Describe(all chan<- *prometheus.Desc) {
	p.metrics.registrations.Describe(all)
	p.metrics.allocations.Describe(all)
}

// Collect implements prometheus.Collector.
func (p *Plugins) Collect(all chan<- prometheus.Metric) {
	p.metrics.registrations.Collect(all)
	p.metrics.allocations.Collect(all)
}
