package audit

import (
	"bytes"
	"context"
	"time"
)

// BatchOptions say how a backend batches. Zeros are the defaults of the backend.
type BatchOptions struct {
	BufferSize, MaxSize int
	MaxWait             time.Duration
	// Throttle bounds how many batches are sent a second to QPS, beyond a burst.
	Throttle bool
	QPS      float64
	Burst    int
}

// batch is a buffer of events that are written later.
type batch struct {
	o      BatchOptions
	events chan []byte
}

func newBatch(o BatchOptions) *batch { return &batch{o: o, events: make(chan []byte, o.BufferSize)} }

// add takes an event. It never waits: false says that there was no room.
func (b *batch) add(encoded []byte) bool {
	select {
	case b.events <- bytes.Clone(encoded):
		return true
	default:
		return false
	}
}

// timeToEnd bounds how long Run writes after the end of its context.
const timeToEnd = 5 * time.Second

// run writes batches until ctx ends, and then what waits.
func (b *backend) run(ctx context.Context) {
	pace := pace{o: b.batch.o}
	for ctx.Err() == nil {
		if events := b.batch.collect(ctx); len(events) > 0 {
			pace.wait(ctx)
			b.send(context.WithoutCancel(ctx), events)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeToEnd)
	defer cancel()
	for len(b.batch.events) > 0 && last.Err() == nil {
		b.send(last, b.batch.waiting(nil))
	}
}

func (b *backend) send(ctx context.Context, events [][]byte) {
	if err := b.sink.write(ctx, events); err != nil {
		b.failed.Add(int64(len(events)))
	}
}

// collect waits for a first event and gathers those that follow, until there are enough, or for some time.
func (b *batch) collect(ctx context.Context) (events [][]byte) {
	select {
	case e := <-b.events:
		events = append(events, e)
	case <-ctx.Done():
		return nil
	}
	if events = b.waiting(events); b.o.MaxWait == 0 {
		return events
	}
	enough := time.NewTimer(b.o.MaxWait)
	defer enough.Stop()
	for len(events) < b.o.MaxSize {
		select {
		case e := <-b.events:
			events = append(events, e)
		case <-enough.C:
			return events
		case <-ctx.Done():
			return events
		}
	}
	return events
}

// waiting adds what is there, up to the size of a batch.
func (b *batch) waiting(events [][]byte) [][]byte {
	for len(events) < b.o.MaxSize {
		select {
		case e := <-b.events:
			events = append(events, e)
		default:
			return events
		}
	}
	return events
}

// pace bounds the rate of batches: a bucket of tokens.
type pace struct {
	o      BatchOptions
	tokens float64
	at     time.Time
}

func (p *pace) wait(ctx context.Context) {
	if !p.o.Throttle || p.o.QPS <= 0 {
		return
	}
	now := time.Now()
	if p.at.IsZero() {
		p.tokens = float64(p.o.Burst)
	} else {
		p.tokens = min(float64(p.o.Burst), p.tokens+now.Sub(p.at).Seconds()*p.o.QPS)
	}
	p.at = now
	if p.tokens--; p.tokens >= 0 {
		return
	}
	timer := time.NewTimer(time.Duration(-p.tokens / p.o.QPS * float64(time.Second)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
