// Package prommetrics counts resource claims for Prometheus, under the names that kube-controller-manager uses:
// resourceclaim_controller_resource_claims and dynamic_resource_allocation_resourceclaim_creates_total.
//
// What is guaranteed: claims are counted when somebody asks, from the loop's cache. While no loop runs there are none.
package prommetrics

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/controllers/resourceclaim"
)

// Metrics is a [resourceclaim.Metrics] and a Prometheus collector.
type Metrics struct {
	created *prometheus.CounterVec
	claims  *prometheus.Desc

	mu    sync.Mutex
	count func() map[resourceclaim.Sort]int // guarded by mu
}

// New makes the metrics and registers them with each registerer given.
func New(registerers ...prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		created: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: "dynamic_resource_allocation", Name: "resourceclaim_creates_total",
			Help: "Number of attempts to make a resource claim, by the result, by whether it asks for the access of administrators, and by the kind of the owner.",
		}, []string{"status", "admin_access", "owner_api_group", "owner_api_kind"}),
		claims: prometheus.NewDesc("resourceclaim_controller_resource_claims",
			"Number of resource claims, by whether they are allocated and ask for the access of administrators, and by what made them.",
			[]string{"allocated", "admin_access", "source"}, nil),
	}
	for _, r := range registerers {
		if err := r.Register(m); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Created counts an attempt to make a claim.
func (m *Metrics) Created(admin bool, err error) {
	status := "success"
	if err != nil {
		status = "failure"
	}
	m.created.WithLabelValues(status, strconv.FormatBool(admin), "", "Pod").Inc()
}

// Count takes over how claims are counted.
func (m *Metrics) Count(count func() map[resourceclaim.Sort]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count = count
}

// Describe is for Prometheus.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	m.created.Describe(to)
	to <- m.claims
}

// Collect is for Prometheus.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.created.Collect(to)
	m.mu.Lock()
	count := m.count
	m.mu.Unlock()
	if count == nil {
		return
	}
	for sort, n := range count() {
		to <- prometheus.MustNewConstMetric(m.claims, prometheus.GaugeValue, float64(n),
			strconv.FormatBool(sort.Allocated), strconv.FormatBool(sort.Admin), sort.Source)
	}
}
