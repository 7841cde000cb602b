package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// FromAPI makes a typed stream of an apimachinery watch, such as those that client-go's clients return. Error events
// carry the status as an error; an event whose object is of another type becomes an Error event too.
func FromAPI[T runtime.Object](source apiwatch.Interface) Stream[T] {
	return &fromAPI[T]{source: source}
}

type fromAPI[T runtime.Object] struct {
	source   apiwatch.Interface
	halting  stopping // the receiver called Stop
	releases stopping // the source was stopped
	err      error    // what ended the stream; only used by the caller of Next
}

func (f *fromAPI[T]) Next(ctx context.Context) (Event[T], error) {
	if f.err != nil {
		return Event[T]{}, f.err
	}
	event, err := f.next(ctx)
	if err != nil {
		f.err = err
		f.release()
	}
	return event, err
}

func (f *fromAPI[T]) next(ctx context.Context) (Event[T], error) {
	if f.halting.stopped() {
		return Event[T]{}, ErrStopped
	}
	select {
	case event, ok := <-f.source.ResultChan():
		if ok {
			return typed[T](event), nil
		}
		if f.halting.stopped() {
			return Event[T]{}, ErrStopped
		}
		return Event[T]{}, io.EOF
	case <-f.halting.channel():
		return Event[T]{}, ErrStopped
	case <-ctx.Done():
		return Event[T]{}, ctx.Err()
	}
}

// release stops the source, once.
func (f *fromAPI[T]) release() {
	if f.releases.stop() {
		f.source.Stop()
	}
}

func (f *fromAPI[T]) Stop() {
	f.halting.stop()
	f.release()
}

func typed[T runtime.Object](event apiwatch.Event) Event[T] {
	if event.Type == apiwatch.Error {
		return Event[T]{Type: Error, Err: apierrors.FromObject(event.Object)}
	}
	object, ok := event.Object.(T)
	if !ok {
		return Event[T]{Type: Error, Err: fmt.Errorf("watch: %s event with an object of type %T", event.Type, event.Object)}
	}
	return Event[T]{Type: EventType(event.Type), Object: object}
}

// ToAPI makes an apimachinery watch of a stream. Its goroutine ends when the stream does or when Stop is called, which
// waits for it.
func ToAPI[T runtime.Object](stream Stream[T]) apiwatch.Interface {
	ctx, cancel := context.WithCancel(context.Background())
	w := &toAPI[T]{stream: stream, cancel: cancel, events: make(chan apiwatch.Event)}
	w.running.Go(func() { w.run(ctx) })
	return w
}

type toAPI[T runtime.Object] struct {
	stream  Stream[T]
	cancel  context.CancelFunc
	events  chan apiwatch.Event
	running sync.WaitGroup
}

func (t *toAPI[T]) run(ctx context.Context) {
	defer close(t.events)
	defer t.stream.Stop()
	for {
		event, err := t.stream.Next(ctx)
		if err == io.EOF || ctx.Err() != nil {
			return
		}
		if err != nil {
			event = Event[T]{Type: Error, Err: err}
		}
		select {
		case t.events <- untyped(event):
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (t *toAPI[T]) ResultChan() <-chan apiwatch.Event { return t.events }

func (t *toAPI[T]) Stop() {
	t.cancel()
	t.stream.Stop()
	t.running.Wait()
}

func untyped[T runtime.Object](event Event[T]) apiwatch.Event {
	if event.Type != Error {
		return apiwatch.Event{Type: apiwatch.EventType(event.Type), Object: event.Object}
	}
	return apiwatch.Event{Type: apiwatch.Error, Object: statusOf(event.Err)}
}

func statusOf(err error) *metav1.Status {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		s := status.Status()
		return &s
	}
	s := apierrors.NewInternalError(err).Status()
	return &s
}
