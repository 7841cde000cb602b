package cronjob

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/controllers/internal/meter"
)

// Metrics measures when Jobs are started.
type Metrics struct{ late prometheus.Histogram }

// NewMetrics makes the metrics.
func NewMetrics(m *meter.Maker) *Metrics {
	return &Metrics{m.Histogram("cronjob_controller", "job_creation_skew_duration_seconds",
		"How long in seconds after its scheduled time a Job is made.", prometheus.ExponentialBuckets(1, 2, 10))}
}

// Started counts a Job that was made, with how long that was after its scheduled time.
func (c *Metrics) Started(late time.Duration) { c.late.Observe(late.Seconds()) }
