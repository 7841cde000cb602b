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

// ErrClosed is returned by Pop when the queue is closed and empty, and by methods that add changes once it is closed.
var ErrClosed = errors.New("queue is closed")

// KnownObjects are the objects that a FIFO's consumer has; an informer.Store implements it. The queue compares them
// with complete lists to find objects that vanished, and a resync queues them.
type KnownObjects[T any] interface {
	Keys() iter.Seq[informer.Key]
	Lookup(key informer.Key) (T, bool)
}

// FIFOOptions configure a FIFO. For objects with metadata the zero value works.
type FIFOOptions[T any] struct {
	// Key returns an object's key. Default: its namespace and name.
	Key func(T) informer.Key
	// KnownObjects are the objects that the consumer has. Without it, only queued objects are known.
	KnownObjects KnownObjects[T]
	// ListsAreSyncs makes the objects of a list Sync deltas instead of Replaced ones.
	ListsAreSyncs bool
	// Transform is applied to each object before it is kept.
	Transform func(T) (T, error)
}

// FIFO is what client-go calls a DeltaFIFO: a queue of objects, in the order in which they first changed, each with the
// list of its changes. It is safe for use by several goroutines. The consumer receives one object at a time, with all
// changes since it last received that object. Guarantees: no change is lost, except that two deletions in a row are
// one; an object that is queued or known to the consumer, but not in a complete list, is reported as deleted with
// FinalStateUnknown.
type FIFO[T any] struct {
	options FIFOOptions[T]
	changed signal.Signal

	// The lock is held while a change is processed. Otherwise a complete list might be compared with a half-updated
	// consumer. Process functions must not call methods of the queue, and must not wait for a goroutine that does.
	mu         sync.Mutex
	items      map[informer.Key]Deltas[T] // guarded by mu
	queue      []informer.Key             // guarded by mu; each key in items once
	hasChanges bool                       // guarded by mu: there was a list or a change
	initial    int                        // guarded by mu: how many objects of the first list have not been popped
	closed     bool                       // guarded by mu
}

var _ informer.Target[any] = (*FIFO[any])(nil)

// NewFIFO returns an empty queue.
func NewFIFO[T any](options FIFOOptions[T]) *FIFO[T] {
	options.Key = state.KeyFunc(options.Key)
	return &FIFO[T]{options: options, items: map[informer.Key]Deltas[T]{}}
}

// KeyOf returns the object's key in the queue.
func (f *FIFO[T]) KeyOf(object T) informer.Key { return f.options.Key(object) }

// Add queues an Added delta.
func (f *FIFO[T]) Add(object T) error { return f.change(Added, object) }

// Update queues an Updated delta.
func (f *FIFO[T]) Update(object T) error { return f.change(Updated, object) }

func (f *FIFO[T]) change(kind Type, object T) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hasChanges = true
	return f.queueLocked(Delta[T]{Type: kind, Object: object})
}

// Delete queues a Deleted delta, unless the object is neither queued nor known to the consumer.
func (f *FIFO[T]) Delete(object T) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hasChanges = true
	key := f.options.Key(object)
	_, queued := f.items[key]
	known := false
	if f.options.KnownObjects != nil {
		_, known = f.options.KnownObjects.Lookup(key)
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
	if !f.hasChanges {
		f.hasChanges = true
		f.initial = len(f.queue)
	}
	return errors.Join(errs...)
}

// vanishedLocked returns the last known state of each object that is queued or known to the consumer, but not present.
func (f *FIFO[T]) vanishedLocked(present map[informer.Key]bool) []T {
	var vanished []T
	for _, key := range f.queue {
		if !present[key] {
			vanished = append(vanished, f.items[key].Newest().Object)
		}
	}
	if f.options.KnownObjects == nil {
		return vanished
	}
	for key := range f.options.KnownObjects.Keys() {
		if _, queued := f.items[key]; present[key] || queued {
			continue
		}
		if last, ok := f.options.KnownObjects.Lookup(key); ok {
			vanished = append(vanished, last)
		}
	}
	return vanished
}

// Bookmark does nothing: a bookmark changes no object.
func (f *FIFO[T]) Bookmark(string) {}

// Resync queues a Sync delta for each object that the consumer knows and that has no changes queued.
func (f *FIFO[T]) Resync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.options.KnownObjects == nil {
		return nil
	}
	var errs []error
	for key := range f.options.KnownObjects.Keys() {
		if _, queued := f.items[key]; queued {
			continue
		}
		if object, ok := f.options.KnownObjects.Lookup(key); ok {
			errs = append(errs, f.keepLocked(key, Delta[T]{Type: Sync, Object: object}))
		}
	}
	return errors.Join(errs...)
}

// queueLocked transforms and queues a delta. Objects from the queue or the consumer have been transformed already.
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
	f.changed.Raise()
	return nil
}

// Pop waits for an object with changes, removes it from the queue and calls process with its changes. If process
// returns an error, Pop returns it. If that error wraps ErrRequeue, the changes are queued again, before any newer
// ones. The argument initial is true for objects of the first list.
func (f *FIFO[T]) Pop(ctx context.Context, process func(deltas Deltas[T], initial bool) error) (Deltas[T], error) {
	for {
		changed := f.changed.Wait()
		if deltas, ok, err := f.popNow(process); ok || err != nil {
			return deltas, err
		}
		select {
		case <-changed:
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
		f.changed.Raise()
	}
	return deltas, true, err
}

// HasSynced reports whether all objects of the first list have been popped. If there was a change before any list, it
// returns true.
func (f *FIFO[T]) HasSynced() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hasChanges && f.initial == 0
}

// Len returns the number of objects in the queue.
func (f *FIFO[T]) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.queue)
}

// Close makes Pop return ErrClosed once the queue is empty. Nothing can be added afterwards.
func (f *FIFO[T]) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.changed.Raise()
}
