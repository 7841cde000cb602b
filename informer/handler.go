package informer

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/millrace/millrace/cause"
	"github.com/millrace/millrace/informer/internal/dispatch"
	"github.com/millrace/millrace/informer/internal/state"
)

// Handler has the functions that an informer calls for changes. Any of them may be nil. A handler that only needs keys
// sets Changed alone, which costs least, because no object is decoded for it.
type Handler[T any] struct {
	// Added is called for an object that is new to the handler. Initial objects were in the cache when the handler was
	// added, or are from the informer's first list.
	Added func(object T, initial bool)
	// Updated is called with the object that the handler received last, and the new one.
	Updated func(old, new T)
	// Set is called after Added or Updated, with the new object. Where objects are kept encoded, a handler that does
	// not need the old object costs half as much with Set as with Updated.
	Set func(object T)
	// Deleted is called with the last state. If finalStateUnknown, the watch did not report the deletion and last may
	// be outdated.
	Deleted func(last T, finalStateUnknown bool)
	// Changed is called after any of the others.
	Changed func(key Key)
	// Because is called before any of the others, with what they are told of: the newest of the changes since the
	// handler was called last. Without a revision it is a resync, or a deletion that the watch did not report.
	Because func(change cause.Change)

	// Name is used in logs and errors.
	Name string
	// Resync is how often Updated is called for every object although nothing has changed. Zero: the informer's Resync;
	// negative: never.
	Resync time.Duration
}

// receiver calls a handler's functions.
type receiver[T any] struct {
	owner   *Shared[T]
	handler Handler[T]
	leaving context.Context
}

// Notify implements dispatch.Receiver.
func (r *receiver[T]) Notify(n dispatch.Notice[T]) {
	switch {
	case n.Old == nil && n.New == nil:
	case n.Old == nil:
		r.because(n.New, true)
		r.added(n.New, n.Initial)
	case n.New == nil:
		r.because(n.Last, !n.Unknown)
		r.deleted(n.Last, n.Unknown)
	case n.New.Replaces(n.Old):
		r.because(n.New, true)
		last := n.Last
		if last == nil || last.UID != n.Old.UID {
			last = n.Old
		}
		r.deleted(last, n.Unknown)
		r.added(n.New, false)
	case n.New != n.Old || n.Resync:
		r.because(n.New, n.New != n.Old)
		r.updated(n.Old, n.New)
	}
}

// because tells of a version; known says that its revision is that of the change.
func (r *receiver[T]) because(v *state.Version[T], known bool) {
	if r.handler.Because == nil {
		return
	}
	change := cause.Change{Resource: r.owner.resource, Namespace: v.Key.Namespace, Name: v.Key.Name}
	if known {
		change.Revision = v.Revision
	}
	r.call(v.Key, func() { r.handler.Because(change) })
}

func (r *receiver[T]) added(v *state.Version[T], initial bool) {
	if r.handler.Added != nil {
		r.call(v.Key, func() {
			if object, ok := r.owner.object(v, nil); ok {
				r.handler.Added(object, initial)
			}
		})
	}
	r.set(v)
}

func (r *receiver[T]) updated(old, new *state.Version[T]) {
	if r.handler.Updated != nil {
		r.call(new.Key, func() {
			after, ok := r.owner.object(new, old)
			before, ok2 := r.owner.object(old, new)
			if ok && ok2 {
				r.handler.Updated(before, after)
			}
		})
	}
	r.set(new)
}

func (r *receiver[T]) set(v *state.Version[T]) {
	if r.handler.Set != nil {
		r.call(v.Key, func() {
			if object, ok := r.owner.object(v, nil); ok {
				r.handler.Set(object)
			}
		})
	}
	r.changed(v.Key)
}

func (r *receiver[T]) deleted(last *state.Version[T], unknown bool) {
	if r.handler.Deleted != nil {
		r.call(last.Key, func() {
			if object, ok := r.owner.object(last, nil); ok {
				r.handler.Deleted(object, unknown)
			}
		})
	}
	r.changed(last.Key)
}

func (r *receiver[T]) changed(key Key) {
	if r.handler.Changed != nil {
		r.call(key, func() { r.handler.Changed(key) })
	}
}

// call calls a function of the handler, unless the handler has been closed, and reports a panic.
func (r *receiver[T]) call(key Key, f func()) {
	if r.leaving.Err() != nil {
		return
	}
	defer func() {
		if value := recover(); value != nil {
			r.owner.panicked(&HandlerPanic{Handler: r.handler.Name, Key: key, Value: value, Stack: debug.Stack()})
		}
	}()
	f()
}
