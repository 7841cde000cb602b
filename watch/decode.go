package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// Decoder reads events from a connection, a file or another source. Close makes a waiting Decode return; it is called
// once.
type Decoder[T any] interface {
	Decode() (Event[T], error)
	Close() error
}

// Decode returns a stream of the decoder's events. It starts no goroutine: Next decodes. If a context ends while Next
// waits, the decoder is closed, and the stream ends.
func Decode[T any](decoder Decoder[T]) Stream[T] { return &decoded[T]{decoder: decoder} }

type decoded[T any] struct {
	decoder Decoder[T]
	closing stopping
	halted  atomic.Bool // the receiver called Stop

	// Only the caller of Next uses these.
	err     error           // what ended the stream
	ctx     context.Context // the context that closes the decoder when it ends: most callers use one for all events
	release func() bool
}

func (d *decoded[T]) Next(ctx context.Context) (Event[T], error) {
	if d.err != nil {
		return Event[T]{}, d.err
	}
	event, err := d.decode(ctx)
	if err == nil {
		return event, nil
	}
	d.err = d.explain(ctx, err)
	d.heed(context.Background())
	d.close()
	return Event[T]{}, d.err
}

func (d *decoded[T]) decode(ctx context.Context) (Event[T], error) {
	if err := ctx.Err(); err != nil {
		return Event[T]{}, err
	}
	if d.halted.Load() {
		return Event[T]{}, ErrStopped
	}
	d.heed(ctx)
	return d.decoder.Decode()
}

// heed makes the end of this context, and of no other, close the decoder.
func (d *decoded[T]) heed(ctx context.Context) {
	if d.ctx == ctx {
		return
	}
	if d.release != nil {
		d.release()
		d.release = nil
	}
	d.ctx = ctx
	if ctx.Done() != nil {
		d.release = context.AfterFunc(ctx, d.close)
	}
}

// explain distinguishes a connection that was closed here from one that broke: Decode returns the same error for both.
func (d *decoded[T]) explain(ctx context.Context, err error) error {
	switch {
	case d.halted.Load():
		return ErrStopped
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("watch: stream was cut in the middle of an event: %w", err)
	case errors.Is(err, io.EOF):
		return io.EOF
	}
	return fmt.Errorf("watch: decode event: %w", err)
}

func (d *decoded[T]) close() {
	if d.closing.stop() {
		// a receiver that has left does not need the error of Close
		_ = d.decoder.Close()
	}
}

func (d *decoded[T]) Stop() {
	d.halted.Store(true)
	d.close()
}

// Ready reports whether Next would return without waiting, as far as the decoder knows.
func (d *decoded[T]) Ready() bool {
	full, ok := d.decoder.(interface{ Ready() bool })
	return ok && d.err == nil && full.Ready()
}
