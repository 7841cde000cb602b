package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// ErrEnded is wrapped in what Until returns when the stream ends before the conditions hold.
var ErrEnded = errors.New("watch: stream ended before the condition held")

// Condition reports whether an event is the one that was waited for. An error ends the waiting.
type Condition[T any] func(Event[T]) (bool, error)

// Until reads a stream until each condition has held, one after the other, and returns the event at which the last one
// held. One event can satisfy several conditions. Bookmarks are not passed to conditions; an Error event ends the
// waiting. The stream is always stopped.
func Until[T any](ctx context.Context, stream Stream[T], conditions ...Condition[T]) (Event[T], error) {
	defer stream.Stop()
	var last Event[T]
	for len(conditions) > 0 {
		event, err := stream.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return last, fmt.Errorf("%w: %d left", ErrEnded, len(conditions))
		case err != nil:
			return last, err
		case event.Type == Error:
			return event, event.Err
		case event.Type == Bookmark:
			continue
		}
		last = event
		for len(conditions) > 0 {
			ok, err := conditions[0](event)
			if err != nil {
				return event, err
			}
			if !ok {
				break
			}
			conditions = conditions[1:]
		}
	}
	return last, nil
}
