package watch

import "context"

// Filter returns a stream of the events that keep accepts, as keep changes them. Errors always pass.
func Filter[T any](stream Stream[T], keep func(Event[T]) (Event[T], bool)) Stream[T] {
	return &filtered[T]{source: stream, keep: keep}
}

type filtered[T any] struct {
	source Stream[T]
	keep   func(Event[T]) (Event[T], bool)
}

func (f *filtered[T]) Next(ctx context.Context) (Event[T], error) {
	for {
		event, err := f.source.Next(ctx)
		if err != nil || event.Type == Error {
			return event, err
		}
		if event, ok := f.keep(event); ok {
			return event, nil
		}
	}
}

func (f *filtered[T]) Stop() { f.source.Stop() }
