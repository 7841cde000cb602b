package prommetrics

import "github.com/prometheus/client_golang/prometheus"

// Election counts what becomes of an election. It is a loop.ElectionMetrics.
type Election struct {
	leads prometheus.Gauge
	slow  prometheus.Counter
}

// NewElection makes the metrics for the lease of a name and registers them.
func NewElection(r prometheus.Registerer, lease string) (*Election, error) {
	labels := prometheus.Labels{"name": lease}
	e := &Election{
		leads: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "leader_election_master_status", Help: "Whether this process leads: 1 or 0.", ConstLabels: labels,
		}),
		slow: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "leader_election_slowpath_total", Help: "How often a lease had to be read before it could be renewed.", ConstLabels: labels,
		}),
	}
	for _, c := range []prometheus.Collector{e.leads, e.slow} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// Leads implements loop.ElectionMetrics.
func (e *Election) Leads(leads bool) {
	value := 0.0
	if leads {
		value = 1
	}
	e.leads.Set(value)
}

// Read implements loop.ElectionMetrics.
func (e *Election) Read() { e.slow.Inc() }
