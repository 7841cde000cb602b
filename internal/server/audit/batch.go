package audit

import (
	"context"
	"sync"
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

// batch is a buffer of events that are written later. Who adds one never waits for who writes.
type batch struct {
	o BatchOptions
	// enoughText is how much text is written at once, however few events that are; 0 is no bound.
	enoughText int

	some, enough chan struct{} // have room for one signal each

	mu      sync.Mutex // guards what follows
	adding  events
	spare   events // memory for the next ones
	waiting int    // how many events are not written yet
}

// events are encoded, each in a line.
type events struct {
	text []byte
	ends []int // of the lines, in a text that this one may be a part of
	from int   // where this part begins in that text
}

// clear removes all.
func (e *events) clear() { e.text, e.ends = e.text[:0], e.ends[:0] }

// encode adds an event.
func (e *events) encode(one *event) {
	e.text = append(one.append(e.text), '\n')
	e.ends = append(e.ends, len(e.text))
}

// append adds events.
func (e *events) append(more events) {
	for _, end := range more.ends {
		e.ends = append(e.ends, len(e.text)+end-more.from)
	}
	e.text = append(e.text, more.text...)
}

// add adds a line.
func (e *events) add(line []byte) {
	e.text = append(e.text, line...)
	e.ends = append(e.ends, len(e.text))
}

// part is n events, from the i-th.
func (e *events) part(i, n int) events {
	from := e.from
	if i > 0 {
		from = e.ends[i-1]
	}
	return events{e.text[from-e.from : e.ends[i+n-1]-e.from], e.ends[i : i+n], from}
}

// each returns the events without the ends of their lines.
func (e *events) each(yield func([]byte) bool) {
	start := 0
	for _, end := range e.ends {
		end -= e.from
		if !yield(e.text[start : end-1]) {
			return
		}
		start = end
	}
}

func newBatch(o BatchOptions) *batch {
	return &batch{o: o, some: make(chan struct{}, 1), enough: make(chan struct{}, 1)}
}

// add takes the first of some events, as many as there is room for, and returns how many.
func (b *batch) add(more events) (taken int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken = min(len(more.ends), b.o.BufferSize-b.waiting)
	if taken <= 0 {
		return 0
	}
	b.waiting += taken
	text, n := len(b.adding.text), len(b.adding.ends)
	b.adding.append(more.part(0, taken))
	if n == 0 {
		signal(b.some)
	}
	if n < b.o.MaxSize && len(b.adding.ends) >= b.o.MaxSize || text < b.enoughText && len(b.adding.text) >= b.enoughText {
		signal(b.enough)
	}
	return taken
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wait returns when there are events, and enough of them or for some time, or when ctx ends.
func (b *batch) wait(ctx context.Context) {
	select {
	case <-b.some:
	case <-ctx.Done():
		return
	}
	if b.o.MaxWait == 0 {
		return
	}
	timer := time.NewTimer(b.o.MaxWait)
	defer timer.Stop()
	select {
	case <-b.enough:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// take removes all events.
func (b *batch) take() events {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.adding
	b.adding, b.spare = events{text: b.spare.text[:0], ends: b.spare.ends[:0]}, events{}
	select {
	case <-b.enough: // these were
	default:
	}
	return all
}

// wrote makes room for more events.
func (b *batch) wrote(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting -= n
}

// recycle gives back the memory of events.
func (b *batch) recycle(e events) {
	if cap(e.text) > mostRecycled {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spare = e
}

// mostRecycled bounds the memory that is used again.
const mostRecycled = 1 << 20

// timeToEnd bounds how long Run writes after the end of its context.
const timeToEnd = 5 * time.Second

// run writes batches until ctx ends, and then what waits.
func (b *backend) run(ctx context.Context) {
	pace := pace{o: b.batch.o}
	for ctx.Err() == nil {
		b.batch.wait(ctx)
		b.sendAll(context.WithoutCancel(ctx), func() { pace.wait(ctx) })
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeToEnd)
	defer cancel()
	b.sendAll(last, func() {})
}

// sendAll writes what waits, in batches.
func (b *backend) sendAll(ctx context.Context, pause func()) {
	all := b.batch.take()
	for from := 0; from < len(all.ends) && ctx.Err() == nil; {
		n := min(len(all.ends)-from, b.batch.o.MaxSize)
		pause()
		if err := b.sink.write(ctx, all.part(from, n)); err != nil {
			b.failed.Add(int64(n))
		}
		b.batch.wrote(n)
		from += n
	}
	b.batch.recycle(all)
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
