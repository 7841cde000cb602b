package watch

import (
	"context"
	"errors"
	"io"
	"sync"
)

// ErrClosed is what Send returns once a broadcaster is closed.
var ErrClosed = errors.New("watch: broadcaster is closed")

// WhenFull says what a broadcaster does with an event for a receiver whose buffer is full.
type WhenFull int

const (
	// Wait makes Send wait for the receiver, so that each gets everything and the slowest sets the pace.
	Wait WhenFull = iota
	// Drop loses the event for that receiver alone. It can see how many it lost.
	Drop
)

// BroadcasterOptions configure a broadcaster. The zero value buffers 100 events a receiver and waits.
type BroadcasterOptions struct {
	Buffer   int
	WhenFull WhenFull
}

// Broadcaster sends each event to every receiver. It has no goroutine: Send delivers. Senders take turns, so that all
// receivers see one order.
type Broadcaster[T any] struct {
	options BroadcasterOptions
	sending chan struct{} // holds one token: its owner may deliver; taken before mu

	mu        sync.Mutex
	receivers map[*Receiver[T]]struct{} // guarded by mu
	closed    bool                      // guarded by mu
}

// NewBroadcaster returns a broadcaster without receivers.
func NewBroadcaster[T any](options BroadcasterOptions) *Broadcaster[T] {
	if options.Buffer <= 0 {
		options.Buffer = 100
	}
	b := &Broadcaster[T]{
		options:   options,
		sending:   make(chan struct{}, 1),
		receivers: map[*Receiver[T]]struct{}{},
	}
	b.sending <- struct{}{}
	return b
}

// Watch adds a receiver. It gets the events of the prefix first and then everything that is sent from now on. After
// Close it gets the prefix only.
func (b *Broadcaster[T]) Watch(prefix ...Event[T]) *Receiver[T] {
	r := &Receiver[T]{
		owner:   b,
		events:  make(chan Event[T], max(b.options.Buffer, len(prefix))),
		stopped: make(chan struct{}),
		ended:   make(chan struct{}),
	}
	for _, event := range prefix {
		r.events <- event
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		close(r.ended)
		return r
	}
	b.receivers[r] = struct{}{}
	return r
}

// Send delivers an event. With Wait it returns when all receivers have room for it, or with the context's error, having
// perhaps reached some of them. With Drop it never waits for a receiver.
func (b *Broadcaster[T]) Send(ctx context.Context, event Event[T]) error {
	select {
	case <-b.sending:
		defer func() { b.sending <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	receivers, err := b.current()
	if err != nil {
		return err
	}
	for _, r := range receivers {
		if err := r.deliver(ctx, event, b.options.WhenFull); err != nil {
			return err
		}
	}
	return nil
}

// Close lets the receivers read what they have and then ends their streams. A Send that waits returns ErrClosed.
func (b *Broadcaster[T]) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.closed = true
	for r := range b.receivers {
		close(r.ended)
	}
	clear(b.receivers)
}

func (b *Broadcaster[T]) current() ([]*Receiver[T], error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, ErrClosed
	}
	receivers := make([]*Receiver[T], 0, len(b.receivers))
	for r := range b.receivers {
		receivers = append(receivers, r)
	}
	return receivers, nil
}

func (b *Broadcaster[T]) remove(r *Receiver[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.receivers, r)
}

// Receiver is one receiver's stream.
type Receiver[T any] struct {
	owner   *Broadcaster[T]
	events  chan Event[T]
	ended   chan struct{} // closed by the broadcaster
	stopped chan struct{} // closed by the receiver

	mu     sync.Mutex
	lost   int  // guarded by mu
	halted bool // guarded by mu
}

func (r *Receiver[T]) deliver(ctx context.Context, event Event[T], full WhenFull) error {
	select {
	case r.events <- event:
		return nil
	case <-r.stopped:
		return nil
	default:
	}
	if full == Drop {
		r.mu.Lock()
		r.lost++
		r.mu.Unlock()
		return nil
	}
	select {
	case r.events <- event:
		return nil
	case <-r.stopped:
		return nil
	case <-r.ended:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Next implements Stream.
func (r *Receiver[T]) Next(ctx context.Context) (Event[T], error) {
	select {
	case <-r.stopped:
		return Event[T]{}, ErrStopped
	default:
	}
	select {
	case event := <-r.events:
		return event, nil
	default:
	}
	select {
	case event := <-r.events:
		return event, nil
	case <-r.stopped:
		return Event[T]{}, ErrStopped
	case <-ctx.Done():
		r.Stop() // otherwise Send would wait for it
		return Event[T]{}, ctx.Err()
	case <-r.ended:
	}
	// A delivery that was under way when the broadcaster was closed may still have succeeded.
	select {
	case event := <-r.events:
		return event, nil
	default:
		return Event[T]{}, io.EOF
	}
}

// Stop implements Stream: the receiver leaves, and a Send that waits for it continues.
func (r *Receiver[T]) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.halted {
		return
	}
	r.halted = true
	close(r.stopped)
	r.owner.remove(r)
}

// Lost returns how many events were dropped because this receiver was full.
func (r *Receiver[T]) Lost() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}
