package informertest

import (
	"context"
	"io"
	"reflect"
	"sort"
	"strconv"
	"time"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/watch"
)

// watchStream is a cursor into a Source's history.
type watchStream[T informer.Object] struct {
	source    *Source[T]
	selected  func(T) bool
	bookmarks bool
	deadline  time.Time

	// These are guarded by the source's mu.
	position uint64
	pending  []watch.Event[T] // initial events
	bookmark bool             // a bookmark is to be sent
	cut      bool
	cause    error
	stopped  bool
}

// Next implements watch.Stream.
func (w *watchStream[T]) Next(ctx context.Context) (watch.Event[T], error) {
	var timeout <-chan time.Time
	if !w.deadline.IsZero() {
		timer := time.NewTimer(time.Until(w.deadline))
		defer timer.Stop()
		timeout = timer.C
	}
	for {
		changed := w.source.changed.Wait()
		event, ok, err := w.take()
		if ok || err != nil {
			return event, err
		}
		select {
		case <-changed:
		case <-timeout:
			return event, io.EOF
		case <-ctx.Done():
			return event, ctx.Err()
		}
	}
}

// Stop implements watch.Stream.
func (w *watchStream[T]) Stop() {
	w.source.mu.Lock()
	defer w.source.mu.Unlock()
	w.stopped = true
	delete(w.source.watches, w)
	w.source.changed.Raise()
}

func (w *watchStream[T]) take() (event watch.Event[T], ok bool, err error) {
	w.source.mu.Lock()
	defer w.source.mu.Unlock()
	switch {
	case w.stopped:
		return event, false, watch.ErrStopped
	case w.cut && w.cause != nil:
		return event, false, w.cause
	case w.cut:
		return event, false, io.EOF
	case len(w.pending) > 0:
		event, w.pending = w.pending[0], w.pending[1:]
		return event, true, nil
	case w.position < w.source.compacted:
		w.cut = true
		return watch.Event[T]{Type: watch.Error, Err: expiredError(w.position, w.source.compacted)}, true, nil
	}
	if event, ok := w.advanceLocked(); ok {
		return event, true, nil
	}
	if w.bookmark {
		w.bookmark = false
		return w.bookmarkAt(w.source.revision), true, nil
	}
	return event, false, nil
}

// advanceLocked moves to the next record that this watch selects.
func (w *watchStream[T]) advanceLocked() (watch.Event[T], bool) {
	history := w.source.history
	next := sort.Search(len(history), func(i int) bool { return history[i].revision > w.position })
	for _, record := range history[next:] {
		w.position = record.revision
		before := record.had && w.selected(record.old)
		after := record.has && w.selected(record.new)
		switch {
		case after && before:
			return watch.Event[T]{Type: watch.Modified, Object: clone(record.new)}, true
		case after:
			return watch.Event[T]{Type: watch.Added, Object: clone(record.new)}, true
		case before:
			last := clone(record.old)
			last.SetResourceVersion(strconv.FormatUint(record.revision, 10))
			return watch.Event[T]{Type: watch.Deleted, Object: last}, true
		}
	}
	return watch.Event[T]{}, false
}

func (w *watchStream[T]) bookmarkAt(revision uint64) watch.Event[T] {
	var none T
	object := reflect.New(reflect.TypeOf(none).Elem()).Interface().(T)
	object.SetResourceVersion(strconv.FormatUint(revision, 10))
	return watch.Event[T]{Type: watch.Bookmark, Object: object}
}
