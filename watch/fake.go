package watch

import (
	"context"
	"io"
	"sync"
)

// Fake is a stream that a test feeds. Any number of goroutines may send to it; sending never blocks, events wait until
// they are asked for. NewFake makes one.
type Fake[T any] struct {
	mu      sync.Mutex
	pending []Event[T]    // guarded by mu
	changed chan struct{} // guarded by mu; closed and replaced when another field changes
	ended   bool          // guarded by mu: no more will be sent
	stopped bool          // guarded by mu: the receiver has stopped
}

// NewFake returns a stream without events.
func NewFake[T any]() *Fake[T] { return &Fake[T]{changed: make(chan struct{})} }

// Add sends an Added event.
func (f *Fake[T]) Add(object T) { f.Send(Event[T]{Type: Added, Object: object}) }

// Modify sends a Modified event.
func (f *Fake[T]) Modify(object T) { f.Send(Event[T]{Type: Modified, Object: object}) }

// Delete sends a Deleted event.
func (f *Fake[T]) Delete(last T) { f.Send(Event[T]{Type: Deleted, Object: last}) }

// Bookmark sends a Bookmark event.
func (f *Fake[T]) Bookmark(object T) { f.Send(Event[T]{Type: Bookmark, Object: object}) }

// Fail sends an Error event.
func (f *Fake[T]) Fail(err error) { f.Send(Event[T]{Type: Error, Err: err}) }

// Send sends any event. Events sent after End or Stop are dropped.
func (f *Fake[T]) Send(event Event[T]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || f.stopped {
		return
	}
	f.pending = append(f.pending, event)
	f.wakeLocked()
}

// End ends the stream after the events that were sent before.
func (f *Fake[T]) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.wakeLocked()
}

// Stopped reports whether the receiver has stopped the stream.
func (f *Fake[T]) Stopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}

// Next implements Stream.
func (f *Fake[T]) Next(ctx context.Context) (Event[T], error) {
	for {
		event, wait, err := f.take()
		if wait == nil {
			return event, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return Event[T]{}, ctx.Err()
		}
	}
}

// Stop implements Stream.
func (f *Fake[T]) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	f.pending = nil
	f.wakeLocked()
}

// take returns an event, an error, or a channel that is closed when there may be one.
func (f *Fake[T]) take() (Event[T], <-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.stopped:
		return Event[T]{}, nil, ErrStopped
	case len(f.pending) > 0:
		event := f.pending[0]
		f.pending[0] = Event[T]{}
		f.pending = f.pending[1:]
		return event, nil, nil
	case f.ended:
		return Event[T]{}, nil, io.EOF
	}
	return Event[T]{}, f.changed, nil
}

func (f *Fake[T]) wakeLocked() {
	close(f.changed)
	f.changed = make(chan struct{})
}
