package fairness

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const prefix = "apiserver_flowcontrol_"

var (
	byFlow  = []string{"priority_level", "flow_schema"}
	byLevel = []string{"priority_level"}
)

// metrics count under Kubernetes' names. What is known when somebody asks is not counted twice.
type metrics struct {
	dispatched, rejected *prometheus.CounterVec
	waited, executed     *prometheus.HistogramVec
	seats                *prometheus.HistogramVec

	mu  sync.Mutex // guards all
	all map[[2]string]*counts
}

// counts are the metrics of one flow schema in one level.
type counts struct {
	dispatched            prometheus.Counter
	rejected              *prometheus.CounterVec
	waited, waitedInVain  prometheus.Observer
	executed, seats       prometheus.Observer
	level, schema         string
	executing, seatsTaken atomic.Int64
	queued, queuedSeats   atomic.Int64
}

func newMetrics() *metrics {
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets}, append(byFlow[:2:2], labels...))
	}
	seconds := []float64{0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30}
	return &metrics{
		dispatched: prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "dispatched_requests_total", Help: "Requests that were let through."}, byFlow),
		rejected:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "rejected_requests_total", Help: "Requests that were refused."}, append(byFlow[:2:2], "reason")),
		waited:     histogram("request_wait_duration_seconds", "How long requests waited.", seconds, "execute"),
		executed:   histogram("request_execution_seconds", "How long requests were served.", append(seconds[:len(seconds):len(seconds)], 60), "type"),
		seats:      histogram("work_estimated_seats", "Seats that requests were estimated to need.", []float64{1, 2, 4, 8, 16, 32, 64, 100}),
		all:        map[[2]string]*counts{},
	}
}

func (m *metrics) counts(level, schema string) *counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := [2]string{level, schema}
	if c := m.all[at]; c != nil {
		return c
	}
	c := &counts{
		dispatched: m.dispatched.WithLabelValues(level, schema), rejected: m.rejected.MustCurryWith(prometheus.Labels{"priority_level": level, "flow_schema": schema}),
		waited: m.waited.WithLabelValues(level, schema, "true"), waitedInVain: m.waited.WithLabelValues(level, schema, "false"),
		executed: m.executed.WithLabelValues(level, schema, "regular"), seats: m.seats.WithLabelValues(level, schema), level: level, schema: schema,
	}
	m.all[at] = c
	return c
}

func (c *counts) begin(waited time.Duration, w Work) {
	c.dispatched.Inc()
	c.waited.Observe(waited.Seconds())
	c.seats.Observe(float64(w.most()))
	c.executing.Add(1)
	c.seatsTaken.Add(int64(w.most()))
}

func (c *counts) reject(why error, waited time.Duration) {
	c.rejected.WithLabelValues(why.Error()).Inc()
	c.waitedInVain.Observe(waited.Seconds())
}

func (s *Schema) waits(n int64, w Work) {
	s.counts.queued.Add(n)
	s.counts.queuedSeats.Add(n * int64(w.most()))
}

func (s *Schema) served(took time.Duration, w Work) {
	s.counts.executed.Observe(took.Seconds())
	s.counts.executing.Add(-1)
	s.counts.seatsTaken.Add(-int64(w.most()))
}

// gauge is a value that is read when somebody asks.
type gauge struct {
	desc *prometheus.Desc
	of   func(*Level) float64
}

func describe(name, help string, labels []string) *prometheus.Desc {
	return prometheus.NewDesc(prefix+name, help, labels, nil)
}

// levelGauges are those of levels, read under their locks.
var levelGauges = []gauge{
	{describe("nominal_limit_seats", "Seats of a level by its shares.", byLevel), func(l *Level) float64 { return float64(l.bounds.nominal) }},
	{describe("lower_limit_seats", "Seats that a level keeps.", byLevel), func(l *Level) float64 { return float64(l.bounds.lower) }},
	{describe("upper_limit_seats", "Seats that a level may borrow up to.", byLevel), func(l *Level) float64 { return float64(l.bounds.upper) }},
	{describe("current_limit_seats", "Seats that a level has at present.", byLevel), func(l *Level) float64 { return float64(l.current) }},
	{describe("demand_seats_high_watermark", "Most seats that were asked for in the last period.", byLevel), func(l *Level) float64 { return l.demand.mark }},
	{describe("demand_seats_average", "Seats that were asked for in the last period, on average.", byLevel), func(l *Level) float64 { return l.demand.average }},
	{describe("demand_seats_stdev", "Deviation of the seats that were asked for in the last period.", byLevel), func(l *Level) float64 { return l.demand.deviation }},
	{describe("demand_seats_smoothed", "Seats that are asked for, smoothed.", byLevel), func(l *Level) float64 { return l.demand.smooth }},
	{describe("target_seats", "Seats that a level should have.", byLevel), func(l *Level) float64 { return l.demand.target }},
}

var (
	executing = describe("current_executing_requests", "Requests that are served.", byFlow)
	taken     = describe("current_executing_seats", "Seats that are taken.", byFlow)
	inQueue   = describe("current_inqueue_requests", "Requests that wait.", byFlow)
	inSeats   = describe("current_inqueue_seats", "Seats that are waited for.", byFlow)
	fairFrac  = describe("seat_fair_frac", "Fraction of what levels aim for that they got in the last division.", nil)
)

// Describe implements prometheus.Collector.
func (d *Dispatcher) Describe(out chan<- *prometheus.Desc) {
	for _, v := range d.metrics.vectors() {
		v.Describe(out)
	}
	for _, g := range levelGauges {
		out <- g.desc
	}
	for _, desc := range []*prometheus.Desc{executing, taken, inQueue, inSeats, fairFrac} {
		out <- desc
	}
}

func (m *metrics) vectors() []prometheus.Collector {
	return []prometheus.Collector{m.dispatched, m.rejected, m.waited, m.executed, m.seats}
}

// Collect implements prometheus.Collector.
func (d *Dispatcher) Collect(out chan<- prometheus.Metric) {
	for _, v := range d.metrics.vectors() {
		v.Collect(out)
	}
	for _, l := range d.now.Load().levels {
		l.mu.Lock()
		for _, g := range levelGauges {
			out <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.of(l), l.name)
		}
		l.mu.Unlock()
	}
	d.metrics.mu.Lock()
	defer d.metrics.mu.Unlock()
	for _, c := range d.metrics.all {
		for desc, v := range map[*prometheus.Desc]int64{executing: c.executing.Load(), taken: c.seatsTaken.Load(), inQueue: c.queued.Load(), inSeats: c.queuedSeats.Load()} {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(v), c.level, c.schema)
		}
	}
	out <- prometheus.MustNewConstMetric(fairFrac, prometheus.GaugeValue, math.Float64frombits(d.fraction.Load()))
}
