package web

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/features"
	"github.com/millrace/millrace/internal/server/store"
)

// told is what the metrics say of the server itself: its features, its version and its store.
func (w *Web) told() []prometheus.Collector {
	enabled := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubernetes_feature_enabled", Help: "Whether a feature of Kubernetes is on, by its name and stage.",
	}, []string{"name", "stage"})
	for _, g := range features.All() {
		value := 0.0
		if w.o.Features.Enabled(g.Name) {
			value = 1
		}
		enabled.WithLabelValues(g.Name, stageLabel(g.Stage)).Set(value)
	}
	v := w.o.Version
	speaks := v.Major + "." + v.Minor
	version := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "version_info", Help: "The version of the program, and of the API that it speaks.",
	}, []string{"component", "binary", "emulation", "min_compat"})
	version.WithLabelValues("kube", strings.TrimPrefix(v.GitVersion, "v"), speaks, v.MinCompatibilityMajor+"."+v.MinCompatibilityMinor).Set(1)
	return []prometheus.Collector{enabled, version, storageSize{w.storage.Store}}
}

// storageSize tells how large the store is when somebody asks, if it can say so.
type storageSize struct{ store store.Store }

const sizeTimeout = 2 * time.Second

var storageBytes = prometheus.NewDesc("apiserver_storage_size_bytes", "How many bytes the store occupies.", []string{"storage_cluster_id"}, nil)

// Describe implements prometheus.Collector.
func (s storageSize) Describe(out chan<- *prometheus.Desc) { out <- storageBytes }

// Collect implements prometheus.Collector.
func (s storageSize) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), sizeTimeout)
	defer cancel()
	if n, err := s.store.Size(ctx); err == nil {
		out <- prometheus.MustNewConstMetric(storageBytes, prometheus.GaugeValue, float64(n), "etcd-0") // the name of the first store in Kubernetes
	}
}

// stageLabel is Kubernetes' label of a stage: features that are generally available have none.
func stageLabel(stage string) string {
	if stage == "ga" {
		return ""
	}
	return strings.ToUpper(stage)
}

// noAudit counts nothing: without a policy there is no audit.
func noAudit() []prometheus.Collector {
	counter := func(name, help string) prometheus.Collector {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "apiserver_audit_" + name, Help: help})
	}
	return []prometheus.Collector{
		counter("event_total", "Audit events that were generated and sent to the backends."),
		counter("requests_rejected_total", "Requests that were refused because their audit failed."),
	}
}
