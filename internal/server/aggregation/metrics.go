package aggregation

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/millrace/millrace/internal/server/registry"
)

const collectTimeout = 2 * time.Second

var unavailable = prometheus.NewDesc("aggregator_unavailable_apiservice", "Whether an API service is not available, by its name.", []string{"name"}, nil)

// Describe implements prometheus.Collector.
func (a *Aggregator) Describe(out chan<- *prometheus.Desc) { out <- unavailable }

// Collect implements prometheus.Collector. The API services are read when somebody asks.
func (a *Aggregator) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	storage, err := a.storage()
	if err != nil {
		return
	}
	list, err := storage.List(ctx, registry.ListQuery{Freshness: registry.Freshness{Any: true}})
	if err != nil {
		return
	}
	for _, o := range list.Objects {
		service, err := decode[*v1.APIService](ctx, storage.Kind(), o)
		if err != nil {
			continue // the log names it
		}
		value := 1.0
		if isAvailable(service) {
			value = 0
		}
		out <- prometheus.MustNewConstMetric(unavailable, prometheus.GaugeValue, value, service.Name)
	}
}
