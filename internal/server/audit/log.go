package audit

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options say what is written and where. Policy is needed, and one of File, Webhook and Events.
type Options struct {
	Policy  *Policy
	File    FileOptions
	Webhook WebhookOptions
	// Events is given each event, as JSON that holds until it returns. Requests wait for it.
	Events func([]byte)
	Logger *slog.Logger
}

// Log writes audit events. A nil Log writes none.
type Log struct {
	policy   *Policy
	backends []*backend
	buffers  sync.Pool // of *events
	commons  sync.Pool // of *common
	records  sync.Pool // of *Record
	users    users
	held     held

	events   atomic.Int64
	byLevel  [RequestResponse + 1]atomic.Int64
	rejected atomic.Int64
}

// backend is a place where events go, in one of the modes.
type backend struct {
	name   string
	strict bool
	legacy bool
	batch  *batch // nil writes at once
	sink   sink
	failed atomic.Int64
}

// sink takes encoded events.
type sink interface {
	write(context.Context, events) error
	close() error
}

// Modes in which a backend writes.
const (
	Blocking       = "blocking"
	BlockingStrict = "blocking-strict"
	Batch          = "batch"
)

// Open makes a log. Run writes what is batched.
func Open(o Options) (*Log, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Log{policy: o.Policy}
	if o.File.Path != "" {
		b, err := o.File.open(o.Logger)
		if err != nil {
			return nil, err
		}
		l.backends = append(l.backends, b)
	}
	if o.Webhook.ConfigFile != "" {
		b, err := o.Webhook.open(o.Logger)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.backends = append(l.backends, b)
	}
	if o.Events != nil {
		l.backends = append(l.backends, &backend{name: "events", sink: handed(o.Events)})
	}
	return l, nil
}

// handed events go to a func.
type handed func([]byte)

func (h handed) write(_ context.Context, all events) error {
	for one := range all.each {
		h(one)
	}
	return nil
}

func (handed) close() error { return nil }

// Run writes batches until ctx ends.
func (l *Log) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, b := range l.backends {
		if b.batch != nil {
			all.Go(func() { b.run(ctx) })
		}
	}
	<-ctx.Done()
	all.Wait()
	return ctx.Err()
}

// Close ends the log. It writes what has come since Run ended: the last events of requests that were being served then.
func (l *Log) Close() error {
	last, cancel := context.WithTimeout(context.Background(), timeToEnd)
	defer cancel()
	l.held.write(time.Now())
	var err error
	for _, b := range l.backends {
		if b.batch != nil {
			b.sendAll(last, func() {})
		}
		err = errors.Join(err, b.sink.close())
	}
	return err
}

// errUnwritten refuses a request whose beginning could not be written, in the mode blocking-strict.
var errUnwritten = errors.New("the audit event could not be written")

// emit hands an event to all backends, and before it another one of the same request, if that is not nil.
func (l *Log) emit(first, e *event) error {
	l.share(e)
	buffer, _ := l.buffers.Get().(*events)
	if buffer == nil {
		buffer = &events{}
	}
	buffer.clear()
	if first != nil {
		buffer.encode(first)
	}
	buffer.encode(e)
	l.events.Add(int64(len(buffer.ends)))
	var failed error
	for _, b := range l.backends {
		if err := b.take(first, e, *buffer); err != nil && b.strict && e.stage == RequestReceived {
			failed = errUnwritten
		}
	}
	if cap(buffer.text) <= mostKept {
		l.buffers.Put(buffer)
	}
	if e.stage != RequestReceived { // the last event, or the last for a long time
		l.unshare(e)
	}
	if failed != nil {
		l.rejected.Add(1)
	}
	return failed
}

// mostKept bounds the buffers that are used again.
const mostKept = 64 << 10

// share encodes what all events of a request have in common, unless that was done for an earlier one.
func (l *Log) share(e *event) {
	if e.common == nil {
		e.common, _ = l.commons.Get().(*common)
		if e.common == nil {
			e.common = &common{}
		}
		e.common.encode(e, &l.users)
	}
}

func (l *Log) unshare(e *event) {
	if cap(e.common.b) <= mostKept {
		l.commons.Put(e.common)
	}
	e.common = nil
}

// take writes an event, or has it written later, with that before it.
func (b *backend) take(first, e *event, encoded events) error {
	if b.legacy {
		encoded = events{}
		if first != nil {
			encoded.add(first.line())
		}
		encoded.add(e.line())
	}
	if b.batch != nil {
		b.failed.Add(int64(len(encoded.ends) - b.batch.add(encoded)))
		return nil
	}
	err := b.sink.write(context.Background(), encoded)
	if err != nil {
		b.failed.Add(int64(len(encoded.ends)))
	}
	return err
}

// count counts a request by its level.
func (l *Log) count(r *Rule) {
	level := None
	if r != nil {
		level = r.level
	}
	l.byLevel[level].Add(1)
}

var (
	eventTotal    = prometheus.NewDesc("apiserver_audit_event_total", "Audit events that were generated and sent to the backends.", nil, nil)
	errorTotal    = prometheus.NewDesc("apiserver_audit_error_total", "Audit events that could not be written.", []string{"plugin"}, nil)
	levelTotal    = prometheus.NewDesc("apiserver_audit_level_total", "Requests by the level of their audit.", []string{"level"}, nil)
	rejectedTotal = prometheus.NewDesc("apiserver_audit_requests_rejected_total", "Requests that were refused because their audit failed.", nil, nil)
)

// Describe implements prometheus.Collector.
func (l *Log) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{eventTotal, errorTotal, levelTotal, rejectedTotal} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (l *Log) Collect(out chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n *atomic.Int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n.Load()), labels...)
	}
	counter(eventTotal, &l.events)
	counter(rejectedTotal, &l.rejected)
	for i, name := range levels {
		counter(levelTotal, &l.byLevel[i], name)
	}
	for _, b := range l.backends {
		counter(errorTotal, &b.failed, b.name)
	}
}
