package loop

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/cause"
	"github.com/millrace/millrace/informer"
)

// Watch wakes a loop. Make one with [Self], [Owned], [Mapped], [Changes] or [Reads].
type Watch struct {
	follow func(add func(Key, cause.Change)) following
	pace   func(Key) time.Duration
}

// Paced makes a watch wait before it wakes the loop, so that changes which come together are worked on together. pace
// says how long for a key.
func (w Watch) Paced(pace func(Key) time.Duration) Watch {
	w.pace = pace
	return w
}

// following is a running watch: the registration of a handler at an informer.
type following interface {
	Synced(ctx context.Context) error
	Close()
	Done() <-chan struct{}
}

// Self wakes the loop with the key of each object that changes, if all predicates accept the change.
func Self[T any](objects *informer.Shared[T], predicates ...Predicate[T]) Watch {
	if len(predicates) == 0 { // no predicate, so nothing needs to be decoded
		return Watch{follow: func(add func(Key, cause.Change)) following {
			var by cause.Change
			return objects.Handle(informer.Handler[T]{
				Because: func(change cause.Change) { by = change },
				Changed: func(key Key) { add(key, by) },
			})
		}}
	}
	return Watch{follow: func(add func(Key, cause.Change)) following {
		// A handler's functions are called by one goroutine: Because before the others, Changed after them.
		var by cause.Change
		passes := false
		var none T
		return objects.Handle(informer.Handler[T]{
			Because: func(change cause.Change) { by = change },
			Added:   func(object T, _ bool) { passes = pass(predicates, none, object) },
			Updated: func(before, after T) { passes = pass(predicates, before, after) },
			Deleted: func(last T, _ bool) { passes = pass(predicates, last, none) },
			Changed: func(key Key) {
				if passes {
					add(key, by)
				}
			},
		})
	}}
}

// Owned wakes the loop with the key of the controller of each object that changes, if the controller has the given kind
// in any version and all predicates accept the change. If the controller changes, both are woken.
func Owned[T metav1.Object](objects *informer.Shared[T], owner schema.GroupVersionKind, predicates ...Predicate[T]) Watch {
	return Mapped(objects, func(object T) []Key {
		ref := metav1.GetControllerOfNoCopy(object)
		if ref == nil || ref.Kind != owner.Kind {
			return nil
		}
		if group, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || group.Group != owner.Group {
			return nil
		}
		return []Key{{Namespace: object.GetNamespace(), Name: ref.Name}}
	}, predicates...)
}

// Mapped wakes the loop with the keys that a function returns for each object that changes, if all predicates accept
// the change. For an update it is called with the old and the new state.
func Mapped[T any](objects *informer.Shared[T], keys func(T) []Key, predicates ...Predicate[T]) Watch {
	return Watch{follow: func(add func(Key, cause.Change)) following {
		var by cause.Change
		addAll := func(object T) {
			for _, key := range keys(object) {
				add(key, by)
			}
		}
		var none T
		return objects.Handle(informer.Handler[T]{
			Because: func(change cause.Change) { by = change },
			Added: func(object T, _ bool) {
				if pass(predicates, none, object) {
					addAll(object)
				}
			},
			Updated: func(before, after T) {
				if pass(predicates, before, after) {
					addAll(before)
					addAll(after)
				}
			},
			Deleted: func(last T, _ bool) {
				if pass(predicates, last, none) {
					addAll(last)
				}
			},
		})
	}}
}

// Changes wakes the loop with the keys that a function returns for each change. before is T's zero value when an object
// was added, after when it was deleted.
func Changes[T any](objects *informer.Shared[T], keys func(before, after T) []Key) Watch {
	return Watch{follow: func(add func(Key, cause.Change)) following {
		var by cause.Change
		addAll := func(before, after T) {
			for _, key := range keys(before, after) {
				add(key, by)
			}
		}
		var none T
		return objects.Handle(informer.Handler[T]{
			Because: func(change cause.Change) { by = change },
			Added:   func(object T, _ bool) { addAll(none, object) },
			Updated: addAll,
			Deleted: func(last T, _ bool) { addAll(last, none) },
		})
	}}
}

// Cache is the part of an informer that does not depend on its type.
type Cache interface {
	Synced(ctx context.Context) error
	WaitFor(ctx context.Context, resourceVersion string) error
}

// Reads wakes nothing. It makes the loop wait until caches that Sync reads are filled.
func Reads(caches ...Cache) Watch {
	return Watch{follow: func(func(Key, cause.Change)) following { return reading(caches) }}
}

type reading []Cache

func (r reading) Synced(ctx context.Context) error {
	for _, cache := range r {
		if err := cache.Synced(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (reading) Close() {}

func (reading) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}
