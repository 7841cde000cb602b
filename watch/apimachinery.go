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

func (s *fromAPI[T]) Next(ctx context.Context) (Event[T], error) {
	if s.err != nil {
		return Event[T]{}, s.err
	}
	event, err := s.next(ctx)
	if err != nil {
		s.err = err
		s.release()
	}
	return event, err
}

func (s *fromAPI[T]) next(ctx context.Context) (Event[T], error) {
	if s.halting.stopped() {
		return Event[T]{}, ErrStopped
	}
	select {
	case event, ok := <-s.source.ResultChan():
		if ok {
			return typed[T](event), nil
		}
		if s.halting.stopped() {
			return Event[T]{}, ErrStopped
		}
		return Event[T]{}, io.EOF
	case <-s.halting.channel():
		return Event[T]{}, ErrStopped
	case <-ctx.Done():
		return Event[T]{}, ctx.Err()
	}
}

// release stops the source, once.
func (s *fromAPI[T]) release() {
	if s.releases.stop() {
		s.source.Stop()
	}
}

func (s *fromAPI[T]) Stop() {
	s.halting.stop()
	s.release()
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

func (w *toAPI[T]) run(ctx context.Context) {
	defer close(w.events)
	defer w.stream.Stop()
	for {
		event, err := w.stream.Next(ctx)
		if err == io.EOF || ctx.Err() != nil {
			return
		}
		if err != nil {
			event = Event[T]{Type: Error, Err: err}
		}
		select {
		case w.events <- untyped(event):
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (w *toAPI[T]) ResultChan() <-chan apiwatch.Event { return w.events }

func (w *toAPI[T]) Stop() {
	w.cancel()
	w.stream.Stop()
	w.running.Wait()
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
