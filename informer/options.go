package informer

import (
	"log/slog"
	"math/rand/v2"
	"time"
)

// Options configure an informer. The zero value works.
type Options[T any] struct {
	// Name says in logs, errors and metrics which informer is meant. Default: the type of its objects.
	Name   string
	Logger *slog.Logger // nil: discard

	// LabelSelector and FieldSelector restrict what is listed and watched, in the API's syntax.
	LabelSelector string
	FieldSelector string
	// PageSize is the number of objects asked for at a time where the first list is not streamed. Default 2000: client-go's
	// clients allow themselves five requests a second, so small pages make large lists slow.
	PageSize int64
	// DisableStreaming lists in pages even where the server could stream the first list.
	DisableStreaming bool
	// StreamTimeout is how long a streamed first list may make no progress before it is given up for pages. Default 10 s.
	StreamTimeout time.Duration
	// Backoff paces attempts after errors.
	Backoff Backoff

	// Transform is applied to each object before it is kept; it may modify and return the object that it gets. An
	// object for which it fails is kept as it came and the error reported.
	Transform func(T) (T, error)
	// DropManagedFields forgets metadata.managedFields, which few need and which is often half of an object.
	DropManagedFields bool
	// Indexes are those that exist from the start. More can be added with AddIndex.
	Indexes []*Index[T]
	// HotBytes bounds the objects that are kept in decoded form, for sources that deliver protobuf: it is the sum of
	// their encoded sizes. Decoded, an object takes two to eight times that. All others are kept encoded only, and are
	// decoded when they are asked for. Default 16 MiB; negative: all objects are kept decoded.
	HotBytes int

	// Resync is how often a handler that does not say otherwise is told Updated for every object though nothing has
	// changed. Zero: never.
	Resync time.Duration
	// StopWhenUnused makes Run return when the last handler has left.
	StopWhenUnused bool

	Metrics Metrics // nil: none
	// OnError hears of each failed list or watch, each object that could not be used and each panic of a handler. It
	// must not block.
	OnError func(error)
}

func (o Options[T]) withDefaults() Options[T] {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.PageSize <= 0 {
		o.PageSize = 2000
	}
	if o.StreamTimeout <= 0 {
		o.StreamTimeout = 10 * time.Second
	}
	if o.HotBytes == 0 {
		o.HotBytes = 16 << 20
	}
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	o.Backoff = o.Backoff.withDefaults()
	return o
}

// Backoff says how long to wait between attempts. The zero value starts at 800 ms, doubles up to 30 s, adds up to 100 %
// at random, and starts anew after 2 minutes without an error.
type Backoff struct {
	Initial time.Duration
	Max     time.Duration
	Factor  float64
	Jitter  float64 // the largest share that is added at random; negative: none
	Reset   time.Duration
}

func (b Backoff) withDefaults() Backoff {
	if b.Initial <= 0 {
		b.Initial = 800 * time.Millisecond
	}
	if b.Max <= 0 {
		b.Max = 30 * time.Second
	}
	if b.Factor < 1 {
		b.Factor = 2
	}
	if b.Jitter == 0 {
		b.Jitter = 1
	}
	if b.Reset <= 0 {
		b.Reset = 2 * time.Minute
	}
	return b
}

// pacer is the state of one Backoff.
type pacer struct {
	Backoff
	next time.Duration
	last time.Time // of the last failure
}

// failed returns how long to wait after one more failure.
func (p *pacer) failed(now time.Time) time.Duration {
	if p.next == 0 || now.Sub(p.last) > p.Reset+p.next {
		p.next = p.Initial
	}
	wait := p.next
	p.last = now
	p.next = min(time.Duration(float64(p.next)*p.Factor), p.Max)
	if p.Jitter > 0 {
		wait += time.Duration(p.Jitter * rand.Float64() * float64(wait))
	}
	return wait
}
