// Package prommetrics exports a scheduler's metrics to Prometheus, under kube-scheduler's names:
// scheduler_schedule_attempts_total, scheduler_pending_pods and so on.
package prommetrics

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/scheduler"
)

// Metrics is a [scheduler.Metrics] and a Prometheus collector.
type Metrics struct {
	attempts *prometheus.CounterVec
	took     *prometheus.HistogramVec
	decided  prometheus.Histogram
	tries    prometheus.Histogram
	waited   *prometheus.HistogramVec
	pending  *prometheus.GaugeVec
	preempts prometheus.Counter
	victims  prometheus.Histogram
	timedOut prometheus.Counter
	handled  *prometheus.HistogramVec
	points   *prometheus.HistogramVec
	rules    *prometheus.HistogramVec
	claims   *prometheus.CounterVec
	devices  *prometheus.CounterVec
	awaited  *prometheus.HistogramVec

	evictions evictions

	queues map[string]prometheus.Gauge                // the gauges of pending
	slis   [mostAttempts + 2]atomic.Pointer[observer] // those of waited by the number of attempts, as far as they were looked up

	mu      sync.RWMutex // guards what follows
	results map[result]*outcome
	events  map[string]prometheus.Observer
	count   func() scheduler.Counts // nil while no scheduler runs
}

// result is what an attempt ends with.
type result struct {
	profile string
	result  scheduler.Result
}

// outcome has the counters of one result.
type outcome struct {
	attempts prometheus.Counter
	took     prometheus.Observer
}

var (
	cached = prometheus.NewDesc("scheduler_cache_size",
		"Number of nodes, of pods with a node, and of pods whose node was decided and not seen yet.", []string{"type"}, nil)
	refused = prometheus.NewDesc("scheduler_unschedulable_pods",
		"Number of pods without a node, by the plugin that has refused them and the profile. One pod counts for each plugin.", []string{"plugin", "profile"}, nil)
	incoming = prometheus.NewDesc("scheduler_queue_incoming_pods_total",
		"Number of pods that have come to a part of the queue, by the event.", []string{"queue", "event"}, nil)
	evaluated = prometheus.NewDesc("scheduler_plugin_evaluation_total",
		"Number of calls of a rule for a node. Results are kept, so there are far fewer than pods times nodes.", []string{"plugin", "extension_point", "profile"}, nil)
	goroutines = prometheus.NewDesc("scheduler_goroutines", "Number of pods that are being bound.", []string{"operation"}, nil)
	inFlight   = prometheus.NewDesc("scheduler_inflight_events", "Number of pods that were taken from the queue and are not bound yet.", []string{"event"}, nil)
)

// New makes the metrics and registers them with each registerer.
func New(registerers ...prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		results: map[result]*outcome{}, events: map[string]prometheus.Observer{},
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: "scheduler", Name: "schedule_attempts_total",
			Help: "Number of attempts to schedule pods, by the result.",
		}, []string{"profile", "result"}),
		took: histograms("scheduling_attempt_duration_seconds",
			"How long in seconds an attempt takes, from its decision to the answer to its binding.", 0.001, 15, "profile", "result"),
		decided: histogram("scheduling_algorithm_duration_seconds",
			"How long in seconds it takes to find a node.", prometheus.ExponentialBuckets(0.001, 2, 15)),
		tries: histogram("pod_scheduling_attempts",
			"How many attempts a pod needs to get a node.", prometheus.ExponentialBuckets(1, 2, 5)),
		waited: histograms("pod_scheduling_sli_duration_seconds",
			"How long in seconds a pod is without a node, from when the scheduler first sees it.", 0.01, 20, "attempts"),
		pending: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Subsystem: "scheduler", Name: "pending_pods",
			Help: "Number of pods without a node, by the part of the queue that they are in.",
		}, []string{"queue"}),
		preempts: prometheus.NewCounter(prometheus.CounterOpts{
			Subsystem: "scheduler", Name: "preemption_attempts_total",
			Help: "How often pods were looked for that could leave for another one.",
		}),
		victims: histogram("preemption_victims",
			"How many pods had to leave for one.", prometheus.ExponentialBuckets(1, 2, 7)),
		timedOut: prometheus.NewCounter(prometheus.CounterOpts{
			Subsystem: "scheduler", Name: "pod_scheduled_after_flush_total",
			Help: "How many pods got a node when they were tried again only because they had waited for too long.",
		}),
		handled: histograms("event_handling_duration_seconds",
			"How long in seconds it takes to handle an event of a watch.", 0.0001, 12, "event"),
		points: histograms("framework_extension_point_duration_seconds",
			"How long in seconds a pod needs to pass an extension point. Filter includes scoring.", 0.0001, 12, "extension_point", "status", "profile"),
		rules: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: "scheduler", Name: "plugin_execution_duration_seconds", Buckets: prometheus.ExponentialBuckets(0.00001, 1.5, 20),
			Help: "How long in seconds a call of a rule takes, for one in ten pods.",
		}, []string{"plugin", "extension_point", "status"}),
		claims: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: "scheduler", Name: "resourceclaim_creates_total",
			Help: "Number of resource claims that were created for extended resources, or could not be.",
		}, []string{"status"}),
		devices: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: "scheduler", Name: "dra_bindingconditions_allocations_total",
			Help: "Number of devices that pods have waited for, by the driver and how the wait has ended.",
		}, []string{"profile", "driver", "status"}),
		awaited: histograms("dra_bindingconditions_wait_duration_seconds",
			"How long in seconds pods have waited until their devices were ready.", 0.1, 14, "profile", "driver", "status"),
		evictions: newEvictions(), queues: map[string]prometheus.Gauge{},
	}
	for _, queue := range []string{"active", "backoff", "unschedulable", "gated"} {
		m.queues[queue] = m.pending.WithLabelValues(queue)
	}
	for _, r := range registerers {
		if err := r.Register(m); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Subsystem: "scheduler", Name: name, Help: help, Buckets: buckets})
}

func histograms(name, help string, from float64, buckets int, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Subsystem: "scheduler", Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(from, 2, buckets),
	}, labels)
}

// Attempt implements [scheduler.Metrics].
func (m *Metrics) Attempt(profile string, is scheduler.Result, took time.Duration) {
	o := m.outcome(result{profile, is})
	o.attempts.Inc()
	o.took.Observe(took.Seconds())
}

// outcome returns the counters of a result. They are looked up by their labels once.
func (m *Metrics) outcome(r result) *outcome {
	m.mu.RLock()
	o, ok := m.results[r]
	m.mu.RUnlock()
	if ok {
		return o
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o = &outcome{m.attempts.WithLabelValues(r.profile, string(r.result)), m.took.WithLabelValues(r.profile, string(r.result))}
	m.results[r] = o
	return o
}

// Count implements [scheduler.Metrics].
func (m *Metrics) Count(now func() scheduler.Counts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count = now
}

// Decided implements [scheduler.Metrics].
func (m *Metrics) Decided(took time.Duration) { m.decided.Observe(took.Seconds()) }

// mostAttempts is the maximum value of the label attempts.
const mostAttempts = 15

// Bound implements [scheduler.Metrics].
func (m *Metrics) Bound(attempts int, waited time.Duration, timedOut bool) {
	if timedOut {
		m.timedOut.Inc()
	}
	m.tries.Observe(float64(attempts))
	at := &m.slis[min(attempts, mostAttempts+1)]
	o := at.Load()
	if o == nil {
		label := strconv.Itoa(min(attempts, mostAttempts))
		if attempts > mostAttempts {
			label += "+"
		}
		o = &observer{m.waited.WithLabelValues(label)}
		at.Store(o)
	}
	o.Observe(waited.Seconds())
}

// Pending implements [scheduler.Metrics].
func (m *Metrics) Pending(queue string, pods int) {
	m.queues[queue].Set(float64(pods))
}

// PreemptionAttempt implements [scheduler.Metrics].
func (m *Metrics) PreemptionAttempt() { m.preempts.Inc() }

// Preempted implements [scheduler.Metrics].
func (m *Metrics) Preempted(victims int) { m.victims.Observe(float64(victims)) }

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.attempts, m.took, m.decided, m.tries, m.waited, m.pending, m.preempts, m.victims, m.timedOut, m.handled, m.points, m.rules, m.claims, m.devices, m.awaited,
		m.evictions.took, m.evictions.number,
	}
}

// Describe lists what Collect will send.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(out)
	}
	for _, d := range []*prometheus.Desc{cached, refused, incoming, evaluated, goroutines, inFlight} {
		out <- d
	}
}

// Collect sends the metrics.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(out)
	}
	m.mu.RLock()
	count := m.count
	m.mu.RUnlock()
	if count == nil {
		return
	}
	now := count()
	for kind, n := range map[string]int{"nodes": now.Nodes, "pods": now.Pods, "assumed_pods": now.Assumed} {
		out <- prometheus.MustNewConstMetric(cached, prometheus.GaugeValue, float64(n), kind)
	}
	for by, n := range now.Unschedulable {
		out <- prometheus.MustNewConstMetric(refused, prometheus.GaugeValue, float64(n), by.Plugin, by.Profile)
	}
	for to, n := range now.Incoming {
		out <- prometheus.MustNewConstMetric(incoming, prometheus.CounterValue, float64(n), to.Queue, to.Event)
	}
	for e, n := range now.Evaluations {
		out <- prometheus.MustNewConstMetric(evaluated, prometheus.CounterValue, float64(n), e.Plugin, e.Point.String(), e.Profile)
	}
	out <- prometheus.MustNewConstMetric(goroutines, prometheus.GaugeValue, float64(now.InFlight), "binding")
	out <- prometheus.MustNewConstMetric(inFlight, prometheus.GaugeValue, float64(now.InFlight), "PodPopped")
}
