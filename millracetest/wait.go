package millracetest

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/watch"
)

// patience is how long Wait waits.
const patience = time.Minute

// Wait waits until an object is as a test wants it, for a minute at most, and returns it:
//
//	web := millracetest.Wait(t, kube.AppsV1().Deployments("default"), "web", func(d *appsv1.Deployment) bool {
//		return d.Status.AvailableReplicas == 3
//	})
//
// If the object never is, the test ends and says what was seen of it, in order, who wrote it and what changed each
// time. Conditions that hold only for a moment are seen, as far as the API server tells of them.
func Wait[T informer.Object, L runtime.Object](t testing.TB, client informer.Client[T, L], name string, want func(T) bool) T {
	t.Helper()
	return WaitWithin(t, patience, client, name, want)
}

// WaitWithin is Wait with another bound than a minute.
func WaitWithin[T informer.Object, L runtime.Object](t testing.TB, bound time.Duration, client informer.Client[T, L], name string, want func(T) bool) T {
	t.Helper()
	last, seen, err := follow(t.Context(), bound, client, name, func(e watch.Event[T]) bool { return e.Type != watch.Deleted && want(e.Object) })
	if err != nil {
		t.Fatalf("%s is not as it should be: %v\n%s", name, err, seen)
	}
	return last
}

// WaitGone waits until there is no object of a name, for a minute at most. Otherwise the test ends, and says what was
// seen.
func WaitGone[T informer.Object, L runtime.Object](t testing.TB, client informer.Client[T, L], name string) {
	t.Helper()
	gone := func(e watch.Event[T]) bool { return e.Type == watch.Deleted }
	if _, seen, err := follow(t.Context(), patience, client, name, gone); err != nil {
		t.Fatalf("%s has not gone: %v\n%s", name, err, seen)
	}
}

var errLate = errors.New("it took too long")

// follow watches an object until an event is the one that is waited for. That an object is not there at first is a
// deletion.
func follow[T informer.Object, L runtime.Object](ctx context.Context, bound time.Duration, client informer.Client[T, L], name string,
	done func(watch.Event[T]) bool) (last T, seen *sightings, err error) {
	began := time.Now()
	seen = &sightings{}
	ctx, cancel := context.WithTimeoutCause(ctx, bound, errLate)
	defer cancel()
	source := informer.For(client)
	for {
		all, err := list(ctx, source, name)
		if err != nil {
			return last, seen, cause(ctx, err)
		}
		if all.event.Type == watch.Added {
			seen.add(time.Since(began), "is there", all.event.Object)
		} else {
			seen.missing(time.Since(began))
		}
		if last = all.event.Object; done(all.event) {
			return last, seen, nil
		}
		last, err = watchOn(ctx, source, name, all.version, last, func(e watch.Event[T]) bool {
			seen.add(time.Since(began), words[e.Type], e.Object)
			return done(e)
		})
		if again := errors.Is(err, watch.ErrEnded) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err); !again {
			return last, seen, cause(ctx, err)
		}
	}
}

// words are what is said of events.
var words = map[watch.EventType]string{watch.Added: "was created", watch.Modified: "was changed", watch.Deleted: "was deleted"}

// cause says why a context has ended, if that is what is wrong.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// state is what a list showed of an object.
type state[T any] struct {
	event   watch.Event[T]
	version string
}

func list[T informer.Object](ctx context.Context, source informer.Source[T], name string) (s state[T], err error) {
	items, meta, err := source.List(ctx, only(name, ""))
	if err != nil {
		return s, err
	}
	s.version, s.event.Type = meta.ResourceVersion, watch.Deleted
	for _, o := range items {
		s.event = watch.Event[T]{Type: watch.Added, Object: o}
	}
	return s, nil
}

func only(name, version string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: version}
}

// watchOn shows the events after a list. An error that wraps ErrEnded says that the server has ended the watch.
func watchOn[T informer.Object](ctx context.Context, source informer.Source[T], name, version string, last T, done func(watch.Event[T]) bool) (T, error) {
	stream, err := source.Watch(ctx, only(name, version))
	if err != nil {
		return last, err
	}
	e, err := watch.Until(ctx, stream, func(e watch.Event[T]) (bool, error) {
		last = e.Object
		return done(e), nil
	})
	if err == nil {
		last = e.Object
	}
	return last, err
}
