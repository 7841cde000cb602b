package resourceclaim

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/controllers/internal/meter"
)

// Metrics counts claims.
type Metrics struct {
	meter.OnDemand[map[Sort]int]
	created *prometheus.CounterVec
}

// NewMetrics makes the metrics.
func NewMetrics(m *meter.Maker) *Metrics {
	c := &Metrics{created: m.Counters("dynamic_resource_allocation", "resourceclaim_creates_total",
		"Number of attempts to make a resource claim, by the result, by whether it asks for the access of administrators, and by the kind of the owner.",
		"status", "admin_access", "owner_api_group", "owner_api_kind")}
	claims := meter.Gauge("", "resourceclaim_controller_resource_claims",
		"Number of resource claims, by whether they are allocated and ask for the access of administrators, and by what made them.",
		"allocated", "admin_access", "source")
	m.Scraped([]*prometheus.Desc{claims}, func(set meter.Setter) {
		all, _ := c.Now()
		for sort, n := range all {
			set(claims, float64(n), strconv.FormatBool(sort.Allocated), strconv.FormatBool(sort.Admin), sort.Source)
		}
	})
	return c
}

// Created counts a claim that was made for a pod, or could not be made. admin says whether it asks for the access of
// administrators.
func (m *Metrics) Created(admin bool, err error) {
	status := "success"
	if err != nil {
		status = "failure"
	}
	m.created.WithLabelValues(status, strconv.FormatBool(admin), "", "Pod").Inc()
}
