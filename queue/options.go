package queue

import (
	"cmp"
	"context"
	"log/slog"
	"time"
)

// Options of a queue. The zero value has the limits that Kubernetes'
// controllers use.
type Options[K comparable] struct {
	// Name labels metrics and logs.
	Name string

	// BaseDelay is the delay of a key's first retry; each further one doubles
	// it, up to MaxDelay. 0 means 5 ms and 1000 s.
	BaseDelay, MaxDelay time.Duration

	// RetryRate is how many retries a second the queue allows over all keys,
	// after a burst of RetryBurst. 0 means 10 and 100; a negative rate means
	// that only the delays of the single keys count.
	RetryRate  float64
	RetryBurst int

	// Aging is the waiting time that weighs as much as one point of priority.
	// 0 means 100 ms.
	Aging time.Duration

	// OnError is called for each error of Run's work function, panics (as *[PanicError]) included. nil means that they
	// are logged.
	OnError func(ctx context.Context, key K, err error)

	// Metrics counts what happens. nil counts nothing.
	Metrics Metrics

	// Logger is where errors go if there is no OnError. nil means nowhere.
	Logger *slog.Logger
}

func (o Options[K]) withDefaults() Options[K] {
	o.BaseDelay = cmp.Or(o.BaseDelay, 5*time.Millisecond)
	o.MaxDelay = cmp.Or(o.MaxDelay, 1000*time.Second)
	o.RetryRate = cmp.Or(o.RetryRate, 10)
	o.RetryBurst = cmp.Or(o.RetryBurst, 100)
	o.Aging = cmp.Or(o.Aging, 100*time.Millisecond)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.OnError == nil {
		log := o.Logger
		o.OnError = func(ctx context.Context, key K, err error) {
			log.ErrorContext(ctx, "work failed", "queue", o.Name, "key", key, "err", err)
		}
	}
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
	}
	return o
}
