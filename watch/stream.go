package watch

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"
)

// ErrStopped is returned by Next once the receiver has stopped the stream.
var ErrStopped = errors.New("watch: stream was stopped")

// Stream delivers events to one receiver. The package documentation lists its guarantees.
type Stream[T any] interface {
	// Next returns the next event as soon as there is one.
	Next(ctx context.Context) (Event[T], error)
	// Stop ends the stream.
	Stop()
}

// All ranges over a stream and stops it when the loop ends. The last pair carries an error if the stream did not end by
// itself.
func All[T any](ctx context.Context, stream Stream[T]) iter.Seq2[Event[T], error] {
	return func(yield func(Event[T], error) bool) {
		defer stream.Stop()
		for {
			event, err := stream.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

// Empty returns a stream that has ended already.
func Empty[T any]() Stream[T] { return &empty[T]{} }

type empty[T any] struct {
	once stopping
}

func (e *empty[T]) Next(ctx context.Context) (Event[T], error) {
	if e.once.stopped() {
		return Event[T]{}, ErrStopped
	}
	return Event[T]{}, io.EOF
}

func (e *empty[T]) Stop() { e.once.stop() }

// stopping notes that something was stopped, and wakes those who wait for it. The zero value is ready for use.
type stopping struct {
	mu   sync.Mutex
	done chan struct{}
	set  bool
}

func (s *stopping) channel() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		s.done = make(chan struct{})
		if s.set {
			close(s.done)
		}
	}
	return s.done
}

func (s *stopping) stopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set
}

// stop reports whether this call was the first.
func (s *stopping) stop() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set {
		return false
	}
	s.set = true
	if s.done != nil {
		close(s.done)
	}
	return true
}
