package informer

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/millrace/millrace/informer/internal/dispatch"
	"github.com/millrace/millrace/informer/internal/state"
)

// Handler is told what changes. Any of the functions may be nil. A handler that only needs keys sets Changed alone,
// which costs least, since no object has to be decoded for it.
type Handler[T any] struct {
	// Added: an object that the handler has not known. Initial ones were there when the handler joined, or in the
	// informer's first list.
	Added func(object T, initial bool)
	// Updated: old is what the handler was told last.
	Updated func(old, new T)
	// Set is called for each object that Added or Updated would be called for, after them. A handler that does not need
	// the old object costs half of one with Updated, where objects are kept encoded.
	Set func(object T)
	// Deleted: last is the last state. If finalStateUnknown, the deletion was not seen and last may be out of date.
	Deleted func(last T, finalStateUnknown bool)
	// Changed is called after any of the others.
	Changed func(key Key)

	// Name is used in logs and errors.
	Name string
	// Resync is how often Updated is called for every object though nothing has changed. Zero: as the informer's
	// options say; negative: never.
	Resync time.Duration
}

// receiver calls a handler's functions.
type receiver[T any] struct {
	owner   *Shared[T]
	handler Handler[T]
	leaving context.Context
}

// Tell implements dispatch.Receiver.
func (r *receiver[T]) Tell(n dispatch.Notice[T]) {
	switch {
	case n.Old == nil && n.New == nil:
	case n.Old == nil:
		r.added(n.New, n.Initial)
	case n.New == nil:
		r.deleted(n.Last, n.Unknown)
	case n.New.Replaces(n.Old):
		last := n.Last
		if last == nil || last.UID != n.Old.UID {
			last = n.Old
		}
		r.deleted(last, n.Unknown)
		r.added(n.New, false)
	case n.New != n.Old || n.Resync:
		r.updated(n.Old, n.New)
	}
}

func (r *receiver[T]) added(v *state.Version[T], initial bool) {
	if r.handler.Added != nil {
		r.contain(v.Key, func() {
			if object, ok := r.owner.object(v, nil); ok {
				r.handler.Added(object, initial)
			}
		})
	}
	r.set(v)
}

func (r *receiver[T]) updated(old, new *state.Version[T]) {
	if r.handler.Updated != nil {
		r.contain(new.Key, func() {
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
		r.contain(v.Key, func() {
			if object, ok := r.owner.object(v, nil); ok {
				r.handler.Set(object)
			}
		})
	}
	r.changed(v.Key)
}

func (r *receiver[T]) deleted(last *state.Version[T], unknown bool) {
	if r.handler.Deleted != nil {
		r.contain(last.Key, func() {
			if object, ok := r.owner.object(last, nil); ok {
				r.handler.Deleted(object, unknown)
			}
		})
	}
	r.changed(last.Key)
}

func (r *receiver[T]) changed(key Key) {
	if r.handler.Changed != nil {
		r.contain(key, func() { r.handler.Changed(key) })
	}
}

// contain calls a function unless the handler has left, and reports its panic.
func (r *receiver[T]) contain(key Key, f func()) {
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
