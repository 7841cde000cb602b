package delta

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/internal/signal"
	"github.com/millrace/millrace/informer/internal/state"
)

// ErrClosed is what Pop returns when the queue is closed and empty, and what changes return once it is closed.
var ErrClosed = errors.New("queue is closed")

// Known is what a FIFO's consumer holds: an informer.Store is one. The queue compares it with complete lists to find out
// what vanished, and takes resyncs from it.
type Known[T any] interface {
	Keys() iter.Seq[informer.Key]
	Lookup(key informer.Key) (T, bool)
}

// FIFOOptions configure a FIFO. For objects with metadata the zero value works.
type FIFOOptions[T any] struct {
	// Key names an object. Default: by its namespace and name.
	Key func(T) informer.Key
	// Known is what the consumer holds. Without it, only what is in the queue is known.
	Known Known[T]
	// ListsAreSyncs makes the objects of a list Sync deltas instead of Replaced ones.
	ListsAreSyncs bool
	// Transform is applied to each object before it is kept.
	Transform func(T) (T, error)
}

// FIFO is what Kubernetes calls a DeltaFIFO: a queue of objects, in the order in which they first changed, each with the
// list of its changes. It is safe for use by several goroutines. A consumer sees one object at a time, with all changes
// since it saw that object last. Guarantees: no change is lost, except that two deletions in a row are one; an object that
// is not in a complete list, but in the queue or known to the consumer, is reported as deleted with FinalStateUnknown.
type FIFO[T any] struct {
	options FIFOOptions[T]
	news    signal.Signal

	// The lock is held while a change is processed, so that the consumer's state cannot be compared with a list half
	// way. Process functions must not call back into the queue, nor wait for somebody who does.
	mu        sync.Mutex
	items     map[informer.Key]Deltas[T] // guarded by mu
	queue     []informer.Key             // guarded by mu; those in items, once each
	populated bool                       // guarded by mu: there was a first list, or a change
	initial   int                        // guarded by mu: how many objects of the first list have not been popped
	closed    bool                       // guarded by mu
}

var _ informer.Target[any] = (*FIFO[any])(nil)

// NewFIFO returns an empty queue.
func NewFIFO[T any](options FIFOOptions[T]) *FIFO[T] {
	options.Key = state.KeyFunc(options.Key)
	return &FIFO[T]{options: options, items: map[informer.Key]Deltas[T]{}}
}

// KeyOf returns the key under which the queue has an object.
func (f *FIFO[T]) KeyOf(object T) informer.Key { return f.options.Key(object) }

// Add queues an Added delta.
func (f *FIFO[T]) Add(object T) error { return f.change(Added, object) }

// Update queues an Updated delta.
func (f *FIFO[T]) Update(object T) error { return f.change(Updated, object) }

func (f *FIFO[T]) change(kind Type, object T) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.populated = true
	return f.queueLocked(Delta[T]{Type: kind, Object: object})
}

// Delete queues a Deleted delta, unless nobody knows the object.
func (f *FIFO[T]) Delete(object T) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.populated = true
	key := f.options.Key(object)
	_, queued := f.items[key]
	known := false
	if f.options.Known != nil {
		_, known = f.options.Known.Lookup(key)
	}
	if !queued && !known {
		return nil
	}
	return f.queueLocked(Delta[T]{Type: Deleted, Object: object})
}

// Replace queues a delta for each object of a complete list, and a Deleted one for each object that is not in it.
func (f *FIFO[T]) Replace(objects []T, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	kind := Replaced
	if f.options.ListsAreSyncs {
		kind = Sync
	}
	present := make(map[informer.Key]bool, len(objects))
	var errs []error
	for _, object := range objects {
		present[f.options.Key(object)] = true
		errs = append(errs, f.queueLocked(Delta[T]{Type: kind, Object: object}))
	}
	vanished := f.vanishedLocked(present)
	for _, last := range vanished {
		errs = append(errs, f.queueLocked(Delta[T]{Type: Deleted, Object: last, FinalStateUnknown: true}))
	}
	if !f.populated {
		f.populated = true
		f.initial = len(f.queue)
	}
	return errors.Join(errs...)
}

// vanishedLocked returns the last known state of what is not present, be it in the queue or with the consumer.
func (f *FIFO[T]) vanishedLocked(present map[informer.Key]bool) []T {
	var vanished []T
	for _, key := range f.queue {
		if !present[key] {
			vanished = append(vanished, f.items[key].Newest().Object)
		}
	}
	if f.options.Known == nil {
		return vanished
	}
	for key := range f.options.Known.Keys() {
		if _, queued := f.items[key]; present[key] || queued {
			continue
		}
		if last, ok := f.options.Known.Lookup(key); ok {
			vanished = append(vanished, last)
		}
	}
	return vanished
}

// Bookmark does nothing: progress alone is no change.
func (f *FIFO[T]) Bookmark(string) {}

// Resync queues a Sync delta for each object that the consumer knows and that has no changes queued.
func (f *FIFO[T]) Resync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.options.Known == nil {
		return nil
	}
	var errs []error
	for key := range f.options.Known.Keys() {
		if _, queued := f.items[key]; queued {
			continue
		}
		if object, ok := f.options.Known.Lookup(key); ok {
			errs = append(errs, f.keepLocked(key, Delta[T]{Type: Sync, Object: object}))
		}
	}
	return errors.Join(errs...)
}

// queueLocked transforms and keeps a delta. What the queue or its consumer knows has been transformed before.
func (f *FIFO[T]) queueLocked(d Delta[T]) error {
	if f.options.Transform != nil && !d.FinalStateUnknown {
		changed, err := f.options.Transform(d.Object)
		if err != nil {
			return fmt.Errorf("transform %s: %w", f.options.Key(d.Object), err)
		}
		d.Object = changed
	}
	return f.keepLocked(f.options.Key(d.Object), d)
}

func (f *FIFO[T]) keepLocked(key informer.Key, d Delta[T]) error {
	if f.closed {
		return ErrClosed
	}
	deltas, queued := f.items[key]
	f.items[key] = append(deltas, d).compressed()
	if !queued {
		f.queue = append(f.queue, key)
	}
	f.news.Raise()
	return nil
}

// Pop waits for an object with changes, removes it, and has its changes processed. If process returns an error, so does
// Pop; if that error wraps ErrRequeue the changes go back into the queue, before any newer ones. The flag tells whether
// the object is one of the first list.
func (f *FIFO[T]) Pop(ctx context.Context, process func(deltas Deltas[T], initial bool) error) (Deltas[T], error) {
	for {
		news := f.news.Wait()
		if deltas, ok, err := f.popNow(process); ok || err != nil {
			return deltas, err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// ErrRequeue in the error of a process function puts the object back into the queue.
var ErrRequeue = errors.New("try again later")

func (f *FIFO[T]) popNow(process func(Deltas[T], bool) error) (Deltas[T], bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) == 0 {
		if f.closed {
			return nil, false, ErrClosed
		}
		return nil, false, nil
	}
	key := f.queue[0]
	f.queue = f.queue[1:]
	deltas := f.items[key]
	delete(f.items, key)
	initial := f.initial > 0
	if initial {
		f.initial--
	}
	err := process(deltas, initial)
	if errors.Is(err, ErrRequeue) {
		f.items[key] = deltas
		f.queue = append(f.queue, key)
		f.news.Raise()
	}
	return deltas, true, err
}

// HasSynced reports whether all objects of the first list have been popped, or, if there was a change before any list,
// that there was one.
func (f *FIFO[T]) HasSynced() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.populated && f.initial == 0
}

// Len returns the number of objects in the queue.
func (f *FIFO[T]) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.queue)
}

// Close makes Pop return ErrClosed once the queue is empty. Nothing can be added any more.
func (f *FIFO[T]) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.news.Raise()
}
