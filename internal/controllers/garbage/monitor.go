package garbage

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/cause"
	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/kinds"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

// monitor keeps the graph up to date for one kind.
type monitor struct {
	cache loop.Cache
	run   func(ctx context.Context) error
	// find returns the cached object and its resource version.
	find func(informer.Key) (fact, string, bool)
	stop context.CancelFunc
}

// entry is all that is kept of an object: some tens of bytes beside its names. Its fields are exported because
// informers compare them by reflection.
type entry struct {
	Key                          informer.Key
	UID                          types.UID
	Version                      string
	Owners                       []metav1.OwnerReference
	Deleting, Foreground, Orphan bool
}

func entryOf(m metav1.Object) *entry {
	finalizers := m.GetFinalizers()
	return &entry{
		Key: informer.KeyOf(m), UID: m.GetUID(), Version: m.GetResourceVersion(), Owners: m.GetOwnerReferences(),
		Deleting:   m.GetDeletionTimestamp() != nil,
		Foreground: slices.Contains(finalizers, metav1.FinalizerDeleteDependents),
		Orphan:     slices.Contains(finalizers, metav1.FinalizerOrphanDependents),
	}
}

func (e *entry) fact(kind *kinds.Kind) fact {
	return fact{
		identity: identity{kind: kind, namespace: e.Key.Namespace, name: e.Key.Name, uid: e.UID},
		owners:   e.Owners, deleting: e.Deleting, foreground: e.Foreground, orphan: e.Orphan,
	}
}

// concerns reports whether a change concerns the graph. Nearly no change does, and the others cost only this
// comparison.
func concerns(before, after *entry) bool {
	return before.Deleting != after.Deleting || before.Foreground != after.Foreground || before.Orphan != after.Orphan ||
		!slices.EqualFunc(before.Owners, after.Owners, sameOwner)
}

// monitor makes the monitor of a kind. For pods it uses the informer of the other loops; for everything else the
// metadata.
func (c *collector) monitor(kind *kinds.Kind) *monitor {
	if kind.Resource.Group == "" && kind.Resource.Resource == "pods" {
		return follow(c, kind, c.pods, func(p *podview.Pod) *entry { return entryOf(p) }, nil)
	}
	entries := informer.Project(informer.Metadata(c.metadata, kind.Resource, ""),
		func(o *metav1.PartialObjectMetadata) *entry { return entryOf(o) },
		informer.Options[*entry]{Name: "garbage/" + kind.Resource.Resource, WatchFor: c.watchFor, OnError: c.monitorFailed})
	return follow(c, kind, entries, func(e *entry) *entry { return e }, entries.Run)
}

// monitorFailed logs an error of an informer. A kind that is gone is normal: its definition was deleted, which the next
// discovery shows.
func (c *collector) monitorFailed(err error) {
	level := slog.LevelWarn
	if apierrors.IsNotFound(err) || errors.Is(err, informer.ErrEmptyWatch) {
		level = slog.LevelDebug
	}
	c.log.Log(context.Background(), level, "informer has trouble", "error", err)
}

func follow[T any](c *collector, kind *kinds.Kind, objects *informer.Shared[T], seen func(T) *entry, run func(context.Context) error) *monitor {
	var by cause.Change
	observe := func(e *entry) { c.suspect(c.graph.observe(e.fact(kind), c.identify), by) }
	handler := informer.Handler[T]{
		Name:    "garbage",
		Because: func(change cause.Change) { by = change },
		Added:   func(o T, _ bool) { observe(seen(o)) },
		Updated: func(before, after T) {
			if e := seen(after); concerns(seen(before), e) {
				observe(e)
			}
		},
		Deleted: func(o T, _ bool) { c.suspect(c.graph.remove(seen(o).UID), by) },
	}
	if kind.Resource.Resource == "customresourcedefinitions" {
		handler.Changed = func(informer.Key) { c.rediscover() }
	}
	return &monitor{
		cache: objects,
		find: func(key informer.Key) (fact, string, bool) {
			o, ok := objects.Lookup(key)
			if !ok {
				return fact{}, "", false
			}
			e := seen(o)
			return e.fact(kind), e.Version, true
		},
		run: func(ctx context.Context) error {
			registration := objects.Handle(handler)
			defer func() {
				registration.Close()
				<-registration.Done()
			}()
			if run != nil {
				return run(ctx)
			}
			<-ctx.Done()
			return nil
		},
	}
}
