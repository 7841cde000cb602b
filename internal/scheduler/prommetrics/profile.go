package prommetrics

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/scheduler"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// profile is a scheduler.ProfileMetrics.
type profile struct {
	m      *Metrics
	name   string
	points [scheduler.Points][scheduler.PointStatuses]atomic.Pointer[observer] // as far as they were looked up

	mu    sync.Mutex // guards rules
	rules map[ruleCall]prometheus.Observer
}

// observer is a Prometheus observer in a type of its own, for atomic pointers.
type observer struct{ prometheus.Observer }

// ruleCall is a call of a rule with its result.
type ruleCall struct {
	rule   string
	point  scheduler.Point
	status scheduler.PointStatus
}

// Profile implements [scheduler.Metrics].
func (m *Metrics) Profile(name string) scheduler.ProfileMetrics {
	return &profile{m: m, name: name, rules: map[ruleCall]prometheus.Observer{}}
}

// Ran implements [scheduler.ProfileMetrics].
func (p *profile) Ran(point scheduler.Point, status scheduler.PointStatus, took time.Duration) {
	at := &p.points[point][status]
	o := at.Load()
	if o == nil {
		o = &observer{p.m.points.WithLabelValues(point.String(), status.String(), p.name)}
		at.Store(o)
	}
	o.Observe(took.Seconds())
}

// RanRule implements [scheduler.ProfileMetrics].
func (p *profile) RanRule(rule string, point scheduler.Point, status scheduler.PointStatus, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	call := ruleCall{rule, point, status}
	o, ok := p.rules[call]
	if !ok {
		o = p.m.rules.WithLabelValues(rule, point.String(), status.String())
		p.rules[call] = o
	}
	o.Observe(took.Seconds())
}

// Handled implements [scheduler.Metrics].
func (m *Metrics) Handled(event string, took time.Duration) {
	m.mu.RLock()
	o, ok := m.events[event]
	m.mu.RUnlock()
	if !ok {
		m.mu.Lock()
		o = m.handled.WithLabelValues(event)
		m.events[event] = o
		m.mu.Unlock()
	}
	o.Observe(took.Seconds())
}

// evictions count how victims of preemptions were deleted.
type evictions struct {
	took   *prometheus.HistogramVec
	number *prometheus.CounterVec
}

func newEvictions() evictions {
	return evictions{
		took: histograms("preemption_goroutines_duration_seconds", "How long in seconds it takes to delete the victims of a preemption.", 0.01, 20, "result"),
		number: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: "scheduler", Name: "preemption_goroutines_execution_total", Help: "How often the victims of a preemption were deleted.",
		}, []string{"result"}),
	}
}

// Evicted implements [scheduler.Metrics]. Preemptions are rare.
func (m *Metrics) Evicted(err error, took time.Duration) {
	result := "success"
	if err != nil {
		result = "error"
	}
	m.evictions.number.WithLabelValues(result).Inc()
	m.evictions.took.WithLabelValues(result).Observe(took.Seconds())
}

// ClaimCreated implements [scheduler.Metrics].
func (m *Metrics) ClaimCreated(err error) {
	status := "success"
	if err != nil {
		status = "failure"
	}
	m.claims.WithLabelValues(status).Inc()
}

// DeviceWaited implements [scheduler.Metrics]. Such devices are rare.
func (m *Metrics) DeviceWaited(profile string, w plugin.DeviceWait) {
	m.awaited.WithLabelValues(profile, w.Driver, w.Outcome).Observe(w.Took.Seconds())
	if w.Conditioned {
		m.devices.WithLabelValues(profile, w.Driver, w.Outcome).Inc()
	}
}
