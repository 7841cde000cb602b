package registry

import (
	"context"
	"fmt"
	"slices"
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/server/store"
)

// narrowWorld has priority classes, some of which somebody is shown.
type narrowWorld struct {
	*world
	classes *Storage
	names   Names
}

func newNarrowWorld(t *testing.T, names ...string) *narrowWorld {
	t.Helper()
	w := newWorld(t, 0)
	face, _ := w.maps.registry.Catalogue.Face(schedulingv1.SchemeGroupVersion.WithResource("priorityclasses"))
	classes, err := w.maps.registry.Storage(face.Of)
	if err != nil {
		t.Fatal(err)
	}
	n := &narrowWorld{world: w, classes: classes}
	for _, name := range names {
		n.add(name)
	}
	return n
}

func (n *narrowWorld) add(name string) store.Revision {
	n.t.Helper()
	c := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	out, err := n.classes.Create(n.t.Context(), "", c, WriteOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	return n.reached(out.Entry.Revision)
}

func (n *narrowWorld) reached(rev store.Revision) store.Revision {
	n.t.Helper()
	if err := n.cache.WaitFor(n.t.Context(), rev); err != nil {
		n.t.Fatal(err)
	}
	return rev
}

// show changes the names. That is a write to the store, as that of a role.
func (n *narrowWorld) show(names ...string) store.Revision {
	n.t.Helper()
	rev, err := n.store.Create(n.t.Context(), fmt.Sprint("/registry/names/", n.names.Changed), []byte("x"), 0)
	if err != nil {
		n.t.Fatal(err)
	}
	n.names = Names{Sorted: names, Changed: n.reached(rev)}
	return rev
}

func (n *narrowWorld) watch(q WatchQuery) (*Watcher, error) {
	q.Selection = Select(n.classes.kind.Faces[0], "", "", nil, nil)
	w, err := n.classes.WatchNames(n.t.Context(), q, func(context.Context, store.Revision) (*Names, error) {
		now := n.names
		now.Revision = n.cache.Revision()
		return &now, nil
	})
	if err == nil {
		n.t.Cleanup(w.Close)
	}
	return w, err
}

// wants fails the test if a watch has other events than these.
func (n *narrowWorld) wants(w *Watcher, want ...Event) {
	n.t.Helper()
	for i, want := range want {
		e, ok, err := w.Next()
		if err != nil || !ok || e.Type != want.Type || want.Revision > 0 && e.Revision != want.Revision {
			n.t.Errorf("event %d is %+v, %v, %v, want %+v", i, e, ok, err, want)
		}
	}
	if e, ok, err := w.Next(); ok || err != nil {
		n.t.Errorf("there is one more: %+v, %v", e, err)
	}
}

// A client that has got only some of the events of a change must not go on from there as if it had all of them.
func TestAWatchOfNamesThatIsCutWithinAChangeOfThemCannotGoOn(t *testing.T) {
	n := newNarrowWorld(t, "a", "b", "c", "d")
	n.show("a", "b")
	w, err := n.watch(WatchQuery{Initial: true})
	if err != nil || len(w.Initial) != 2 {
		t.Fatal(w, err)
	}
	n.show("c", "d")
	for i := range 4 {
		e, ok, err := w.Next()
		want := []watch.EventType{watch.Added, watch.Added, watch.Deleted, watch.Deleted}[i]
		if err != nil || !ok || e.Type != want {
			t.Fatalf("event %d is %+v, %v, want %s", i, e, err, want)
		}
		if _, err := n.watch(WatchQuery{Freshness: Freshness{Revision: e.Revision}}); !apierrors.IsResourceExpired(err) {
			t.Errorf("a watch that goes on after event %d: %v", i, err)
		}
	}
	rev, ok := w.Bookmark()
	if !ok || rev < n.names.Changed {
		t.Fatalf("the bookmark is %d, %v", rev, ok)
	}
	if _, err := n.watch(WatchQuery{Freshness: Freshness{Revision: rev}}); err != nil {
		t.Errorf("a watch that goes on after the bookmark: %v", err)
	}
}

// What changes after a name has appeared is told once, in the order of the changes of all objects.
func TestAnObjectThatChangesAfterItsNameAppearedComesInItsTurn(t *testing.T) {
	n := newNarrowWorld(t, "a")
	n.show("a")
	w, err := n.watch(WatchQuery{Initial: true})
	if err != nil {
		t.Fatal(err)
	}
	n.show("a", "b", "c")
	c := n.add("c")
	b := n.add("b")
	n.wants(w, Event{Type: watch.Added, Revision: c}, Event{Type: watch.Added, Revision: b})
	deleted, err := n.classes.Delete(t.Context(), "", "b", metav1.DeleteOptions{}, WriteOptions{})
	if err != nil || !deleted.Gone {
		t.Fatal(deleted, err)
	}
	n.show("a", "b")
	n.reached(n.add("d"))
	n.wants(w, Event{Type: watch.Deleted, Revision: n.names.Changed - 1}, Event{Type: watch.Deleted})
}

func TestAWatchIsAwakeWhileMoreHasAppearedThanIsReadAtOnce(t *testing.T) {
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("n-%02d", i))
	}
	n := newNarrowWorld(t, names...)
	n.show()
	w, err := n.watch(WatchQuery{Initial: true})
	if err != nil {
		t.Fatal(err)
	}
	n.show(slices.Clone(names)...)
	for range len(names) - 1 {
		if _, ok, err := w.Next(); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	select {
	case <-w.Wake():
	default:
		t.Error("the watch sleeps on an event that it has not returned")
	}
	if rev, ok := w.Bookmark(); ok {
		t.Errorf("a bookmark says %d before the last event", rev)
	}
	n.wants(w, Event{Type: watch.Added})
}
