//go:build linux

package services

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// families are the values of the label ip_family.
var families = [...]string{"IPv4", "IPv6"}

// Metrics are a proxy's metrics under kube-proxy's names. A nil *Metrics counts nothing.
//
// Both families are written in one transaction, so each duration is the same for both.
type Metrics struct {
	synced, syncedWhole, syncedPart, programmed, conntrack *prometheus.HistogramVec
	failures, flows                                        *prometheus.CounterVec
	queued, written, unserved                              *prometheus.GaugeVec
	services, endpoints                                    changes

	mu        sync.Mutex // guards triggers
	triggers  []int64    // when the changes began that are not written yet, in nanoseconds of Unix time
	startedAt time.Time
}

// changes counts the changes of services or of slices.
type changes struct {
	total   prometheus.Counter
	pending prometheus.Gauge
}

// maxTriggers limits the times that wait for the next write.
const maxTriggers = 100_000

// NewMetrics makes metrics and registers them.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	seconds := prometheus.ExponentialBuckets(0.001, 2, 15)
	m := &Metrics{
		synced:      histograms("sync_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds", seconds),
		syncedWhole: histograms("sync_full_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds for full resyncs", seconds),
		syncedPart:  histograms("sync_partial_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds for partial resyncs", seconds),
		programmed:  histograms("network_programming_duration_seconds", "In Cluster Network Programming Latency in seconds", programmingBuckets()),
		conntrack:   histograms("conntrack_reconciler_sync_duration_seconds", "ReconcileConntrackFlowsLatency latency in seconds", seconds),
		failures:    counters("sync_proxy_rules_nftables_sync_failures_total", "Cumulative proxy nftables sync failures"),
		flows:       counters("conntrack_reconciler_deleted_entries_total", "Cumulative conntrack flows deleted by conntrack reconciler"),
		queued:      gauges("sync_proxy_rules_last_queued_timestamp_seconds", "The last time a sync of proxy rules was queued", "ip_family"),
		written:     gauges("sync_proxy_rules_last_timestamp_seconds", "The last time proxy rules were successfully synced", "ip_family"),
		unserved:    gauges("sync_proxy_rules_no_local_endpoints_total", "Number of services with a Local traffic policy and no endpoints", "ip_family", "traffic_policy"),
		services:    newChanges("service", "Service"), endpoints: newChanges("endpoint", "Endpoint"), startedAt: time.Now(),
	}
	for _, c := range []prometheus.Collector{
		m.synced, m.syncedWhole, m.syncedPart, m.programmed, m.conntrack, m.failures, m.flows, m.queued, m.written, m.unserved,
		m.services.total, m.services.pending, m.endpoints.total, m.endpoints.pending,
	} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	m.setUnserved(unserved{})
	return m, nil
}

const subsystem = "kubeproxy"

func histograms(name, help string, buckets []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}, []string{"ip_family"})
}

func counters(name, help string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help}, []string{"ip_family"})
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
}

func newChanges(name, word string) changes {
	return changes{
		prometheus.NewCounter(prometheus.CounterOpts{Subsystem: subsystem, Name: "sync_proxy_rules_" + name + "_changes_total", Help: "Cumulative proxy rules " + word + " changes"}),
		prometheus.NewGauge(prometheus.GaugeOpts{Subsystem: subsystem, Name: "sync_proxy_rules_" + name + "_changes_pending", Help: "Pending proxy rules " + word + " changes"}),
	}
}

// programmingBuckets are a quarter of a second to five minutes, in growing steps.
func programmingBuckets() []float64 {
	all := prometheus.LinearBuckets(0.25, 0.25, 2)
	all = append(all, prometheus.LinearBuckets(1, 1, 59)...)
	all = append(all, prometheus.LinearBuckets(60, 5, 12)...)
	return append(all, prometheus.LinearBuckets(120, 30, 7)...)
}

// changed counts one change of a service or a slice.
func (m *Metrics) changed(of func(*Metrics) changes) {
	if m == nil {
		return
	}
	c := of(m)
	c.total.Inc()
	c.pending.Inc()
	for _, family := range families {
		m.queued.WithLabelValues(family).SetToCurrentTime()
	}
}

func ofServices(m *Metrics) changes  { return m.services }
func ofEndpoints(m *Metrics) changes { return m.endpoints }

// triggered records when a change of endpoints began. Changes from before the start are not counted: nobody waited for
// this proxy.
func (m *Metrics) triggered(at int64) {
	if m == nil || at == 0 || at < m.startedAt.UnixNano() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.triggers) < maxTriggers {
		m.triggers = append(m.triggers, at)
	}
}

// begin is called before a sync. The changes until now belong to it.
func (m *Metrics) begin() (triggers []int64) {
	if m == nil {
		return nil
	}
	m.services.pending.Set(0)
	m.endpoints.pending.Set(0)
	m.mu.Lock()
	defer m.mu.Unlock()
	triggers, m.triggers = m.triggers, nil
	return triggers
}

// failed is called after a sync that failed. Its changes wait for the next one.
func (m *Metrics) failed(triggers []int64) {
	if m == nil {
		return
	}
	for _, family := range families {
		m.failures.WithLabelValues(family).Inc()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.triggers = append(triggers, m.triggers...)
}

// ended is called after a sync that succeeded; whole means that all was compared or written.
func (m *Metrics) ended(began time.Time, whole bool, triggers []int64) {
	if m == nil {
		return
	}
	now := time.Now()
	kind := m.syncedPart
	if whole {
		kind = m.syncedWhole
	}
	for _, family := range families {
		m.synced.WithLabelValues(family).Observe(now.Sub(began).Seconds())
		kind.WithLabelValues(family).Observe(now.Sub(began).Seconds())
		m.written.WithLabelValues(family).SetToCurrentTime()
		for _, at := range triggers {
			m.programmed.WithLabelValues(family).Observe(now.Sub(time.Unix(0, at)).Seconds())
		}
	}
}

func (m *Metrics) setUnserved(n unserved) {
	if m == nil {
		return
	}
	for i, family := range families {
		m.unserved.WithLabelValues(family, "internal").Set(float64(n.internal[i]))
		m.unserved.WithLabelValues(family, "external").Set(float64(n.external[i]))
	}
}

func (m *Metrics) removedFlows(six bool, n int, took time.Duration) {
	if m == nil {
		return
	}
	family := families[familyNumber(six)]
	m.conntrack.WithLabelValues(family).Observe(took.Seconds())
	m.flows.WithLabelValues(family).Add(float64(n))
}
