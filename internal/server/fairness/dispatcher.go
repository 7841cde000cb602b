package fairness

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/server/registry"
)

// Options say what a Dispatcher divides.
type Options struct {
	// Registry has the FlowSchemas and PriorityLevelConfigurations. Without one, or while there are none, there are
	// only the levels that must be there.
	Registry *registry.Registry
	// Seats is how many requests are served at a time in all, exempt ones aside: 600 by default.
	Seats int
	// QueueWait is how long a request may wait: 15 seconds by default.
	QueueWait time.Duration
	Logger    *slog.Logger
}

// Dispatcher decides when requests are served.
type Dispatcher struct {
	o        Options
	metrics  *metrics
	now      atomic.Pointer[snapshot]
	fraction atomic.Uint64 // bits of a float64
	turns    *turns

	mu     sync.Mutex // guards levels
	levels map[string]*Level
}

// New makes a Dispatcher, which knows what must be there. Run follows the configuration of the cluster.
func New(o Options) *Dispatcher {
	if o.Seats <= 0 {
		o.Seats = 600
	}
	if o.QueueWait <= 0 {
		o.QueueWait = 15 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Dispatcher{o: o, levels: map[string]*Level{}, turns: newTurns()}
	d.metrics = newMetrics()
	d.compile(nil, nil)
	return d
}

// Classified is a request whose flow is known.
type Classified struct{ flow }

// Classify finds out which flow a request belongs to.
func (d *Dispatcher) Classify(q *Request) Classified {
	s := d.now.Load().find(q)
	return Classified{flow{s, s.flow(q)}}
}

// Headers of answers that tell by which objects a request was classified.
const (
	SchemaHeader = "X-Kubernetes-Pf-Flowschema-Uid"
	LevelHeader  = "X-Kubernetes-Pf-Prioritylevel-Uid"
)

// Tell says in the header of the answer how the request was classified.
func (c Classified) Tell(h http.Header) {
	h[SchemaHeader], h[LevelHeader] = c.schema.headers[0], c.schema.headers[1]
}

// Exempt tells whether the request is not limited.
func (c Classified) Exempt() bool { return c.schema.level.exempted() }

// MostSeats is how wide a request of the flow may be at most.
func (c Classified) MostSeats() int {
	const widest = 10
	l := c.schema.level
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queuing.exempt {
		return widest
	}
	return max(min(widest, l.bounds.nominal*15/100), 1)
}

// Enter waits until a request may be served. The error is a *Refusal.
func (d *Dispatcher) Enter(ctx context.Context, c Classified, w Work, about func() Detail) (Execution, error) {
	now := time.Now()
	var detail Detail
	if about != nil {
		detail = about()
	}
	e, err := c.schema.level.of(w.Server, now).enter(ctx, c.flow, w, now, d.o.QueueWait, detail)
	if err != nil {
		c.schema.counts.reject(err, time.Since(now))
		const second = 1
		return Execution{}, &Refusal{Reason: err.Error(), RetryAfter: second}
	}
	e.waited = e.since.Sub(now)
	c.schema.counts.begin(e.waited, w)
	if w.Computes {
		e.turns = d.turns
		e.turn = d.turns.take(ctx, c.flow, e.since)
		e.level.proceed()
	}
	return e, nil
}

// ErrNoKinds says that there are no FlowSchemas to follow.
var ErrNoKinds = errors.New("flow schemas are not served")
