package informer

import "time"

// Handler is told what changes. Any of the functions may be nil; a handler that only needs keys sets Changed alone,
// which costs least, since no object has to be decoded for it.
type Handler[T any] struct {
	// Added: an object that the handler has not known. Initial ones were there when the handler joined, or in the
	// informer's first list.
	Added func(object T, initial bool)
	// Updated: old is what the handler was told last.
	Updated func(old, new T)
	// Set is called for each object that Added or Updated would be called for, beside them. A handler that does not
	// care what was before costs half of what one with Updated does, where objects are kept encoded.
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

// tell calls the handler's functions for one notice.
func (r *Registration[T]) tell(n *notice[T], initial bool) {
	switch {
	case n.old == nil && n.new == nil:
	case n.old == nil:
		r.added(n.new, initial)
	case n.new == nil:
		r.deleted(n.last, n.unknown)
	case n.new.replaces(n.old):
		last := n.last
		if last == nil || last.uid != n.old.uid {
			last = n.old
		}
		r.deleted(last, n.unknown)
		r.added(n.new, false)
	case n.new != n.old || n.resync:
		r.updated(n.old, n.new)
	}
}

func (r *Registration[T]) added(v *version[T], initial bool) {
	var call func()
	if r.handler.Added != nil {
		call = func() {
			if object, ok := r.object(v, nil); ok {
				r.handler.Added(object, initial)
			}
		}
	}
	r.guarded(v.key, call)
	r.set(v)
}

func (r *Registration[T]) updated(old, new *version[T]) {
	var call func()
	if r.handler.Updated != nil {
		call = func() {
			after, ok := r.object(new, old)
			before, ok2 := r.object(old, new)
			if ok && ok2 {
				r.handler.Updated(before, after)
			}
		}
	}
	r.guarded(new.key, call)
	r.set(new)
}

func (r *Registration[T]) set(v *version[T]) {
	var call func()
	if r.handler.Set != nil {
		call = func() {
			if object, ok := r.object(v, nil); ok {
				r.handler.Set(object)
			}
		}
	}
	r.call(v.key, call)
}

func (r *Registration[T]) deleted(last *version[T], unknown bool) {
	var call func()
	if r.handler.Deleted != nil {
		call = func() {
			if object, ok := r.object(last, nil); ok {
				r.handler.Deleted(object, unknown)
			}
		}
	}
	r.call(last.key, call)
}

// object returns what a version stands for.
func (r *Registration[T]) object(v, like *version[T]) (T, bool) {
	if v.packed == nil {
		return v.plain, true
	}
	return r.owner.hot.object(v, like)
}
