package informer

import (
	"log/slog"
	"math/rand/v2"
	"time"
)

// Options configure an informer. The zero value works.
type Options[T any] struct {
	// Name is the informer's name in logs, errors and metrics. Default: the type of its objects.
	Name   string
	Logger *slog.Logger // nil: discard

	// LabelSelector and FieldSelector restrict which objects are listed and watched, in the API's syntax.
	LabelSelector string
	FieldSelector string
	// PageSize is the limit of a page where the first list is not streamed. Default 2000: client-go's clients send at
	// most five requests a second by default, so small pages make large lists slow.
	PageSize int64
	// DisableStreaming lists in pages even where the server can stream the first list.
	DisableStreaming bool
	// StreamTimeout is how long a streamed first list may make no progress before pages are requested instead. Default
	// 10 s.
	StreamTimeout time.Duration
	// WatchFor is how long the server is asked to keep a watch open, up to twice as long: then connections are
	// distributed over servers again. Default 5 minutes.
	WatchFor time.Duration
	// Backoff is the delay between attempts after errors.
	Backoff Backoff

	// Transform is applied to each object before it is kept. It may modify and return its argument. If it fails, the
	// object is kept unchanged and the error is reported.
	Transform func(T) (T, error)
	// DropManagedFields removes metadata.managedFields, which few programs need and which is often half of an object.
	DropManagedFields bool
	// Indexes are the initial indexes. AddIndex adds more.
	Indexes []*Index[T]
	// HotBytes bounds the encoded size of the objects that are also kept decoded, for sources that deliver protobuf. A
	// decoded object takes two to eight times its encoded size. All others are kept encoded only and are decoded when
	// they are read. Default 16 MiB; negative: all objects are kept decoded.
	HotBytes int

	// Resync is the default interval at which a handler receives Updated for every object although nothing has changed.
	// Zero: never.
	Resync time.Duration
	// StopWhenUnused makes Run return when the last handler has been closed.
	StopWhenUnused bool

	Metrics Metrics // nil: none
	// OnError receives the error of each failed list or watch, each object that could not be used and each panic of a
	// handler. It must not block.
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
	if o.WatchFor <= 0 {
		o.WatchFor = 5 * time.Minute
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

// Backoff is the delay between attempts. The zero value starts at 800 ms, doubles up to 30 s, adds up to 100 % at
// random, and starts again after 2 minutes without an error.
type Backoff struct {
	Initial time.Duration
	Max     time.Duration
	Factor  float64
	Jitter  float64 // the largest fraction that is added at random; negative: none
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

// backoffState is the state of one Backoff.
type backoffState struct {
	Backoff
	next time.Duration
	last time.Time // the time of the last failure
}

// failed records a failure and returns how long to wait.
func (b *backoffState) failed(now time.Time) time.Duration {
	if b.next == 0 || now.Sub(b.last) > b.Reset+b.next {
		b.next = b.Initial
	}
	wait := b.next
	b.last = now
	b.next = min(time.Duration(float64(b.next)*b.Factor), b.Max)
	if b.Jitter > 0 {
		wait += time.Duration(b.Jitter * rand.Float64() * float64(wait))
	}
	return wait
}
