package registry

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// webhook is a representation whose objects all need conversion. Their label "color" becomes what is stored, up to the
// first space.
type webhook struct {
	resource.Representation
	calls int
}

var errWebhook = errors.New("the webhook fails")

func (w *webhook) Foreign() bool                           { return true }
func (w *webhook) Prepare(context.Context, [][]byte) error { return nil }
func (w *webhook) StoredInVersion([]string) bool           { return false }
func (w *webhook) VersionAttributes(_ context.Context, stored [][]byte) []resource.VersionAttributes {
	w.calls++
	out := make([]resource.VersionAttributes, len(stored))
	for i, s := range stored {
		color, _, _ := strings.Cut(string(s), " ")
		out[i].Labels = []string{"color", color}
		if color == "broken" {
			out[i].Err = errWebhook
		}
	}
	return out
}

// red selects red objects, as a webhook shows them.
func red(w *webhook) (*Storage, Selection) {
	kind := &resource.Kind{Identity: &resource.Identity{Resource: "x"}, Representation: w}
	return &Storage{kind: kind}, Selection{labels: labels.SelectorFromSet(labels.Set{"color": "red"})}
}

// watchRed watches red objects in a feed.
func watchRed(w *webhook, feed feed) *Watcher {
	s, selection := red(w)
	watcher := &Watcher{selection: selection}
	watcher.follow(context.Background(), s, feed)
	return watcher
}

// put is an event that sets an object to a value.
func put(key, value string, rev store.Revision, before *watchcache.Event) *watchcache.Event {
	o, _ := watchcache.NewObject(watchcache.KindOptions{Prefix: "/registry/x/"}, store.Entry{Key: "/registry/x/" + key, Value: []byte(value), Revision: rev})
	if before == nil {
		return &watchcache.Event{Type: watchcache.Added, Object: o, Revision: rev}
	}
	return &watchcache.Event{Type: watchcache.Modified, Object: o, Previous: before.Object, Revision: rev}
}

func remove(before *watchcache.Event, rev store.Revision) *watchcache.Event {
	return &watchcache.Event{Type: watchcache.Deleted, Object: before.Object, Previous: before.Object, Revision: rev}
}

func TestAWatchReadsAheadToConvertTogetherAndItsBookmarksSayWhatWasReturned(t *testing.T) {
	a := put("a", "red", 5, nil)
	b := put("b", "blue", 6, nil)
	repainted := put("b", "red", 8, b)
	gone := remove(a, 9)
	hook := &webhook{}
	w := watchRed(hook, &script{events: []*watchcache.Event{a, b, put("c", "blue", 7, nil), repainted, gone, put("c", "green", 10, nil)}, rev: 10})
	for _, want := range []struct {
		kind     string
		name     string
		revision store.Revision
		bookmark store.Revision
	}{{"ADDED", "a", 5, 7}, {"ADDED", "b", 8, 8}, {"DELETED", "a", 9, 10}} {
		e, ok, err := w.Next()
		if !ok || err != nil || string(e.Type) != want.kind || e.Object.Name() != want.name || e.Revision != want.revision {
			t.Fatalf("the watch returns %s %v at %d, %v, %v, want %v", e.Type, e.Object, e.Revision, ok, err, want)
		}
		if rev, ok := w.Bookmark(); !ok || rev != want.bookmark {
			t.Errorf("after %s %s a bookmark says %d, %v, want %d", want.kind, want.name, rev, ok, want.bookmark)
		}
	}
	if _, ok, err := w.Next(); ok || err != nil {
		t.Error("there is more:", ok, err)
	}
	if hook.calls != 1 {
		t.Errorf("the events took %d calls", hook.calls)
	}
}

func TestAFailedConversionEndsAWatchAfterTheEventsBeforeIt(t *testing.T) {
	w := watchRed(&webhook{}, &script{events: []*watchcache.Event{put("a", "red", 1, nil), put("b", "broken", 2, nil), put("c", "red", 3, nil)}, rev: 3})
	if e, ok, err := w.Next(); !ok || err != nil || e.Object.Name() != "a" {
		t.Fatal(e, ok, err)
	}
	for range 2 {
		if _, ok, err := w.Next(); ok || err == nil || !strings.Contains(err.Error(), errWebhook.Error()) {
			t.Error("the broken object gives", ok, err)
		}
	}
	if rev, ok := w.Bookmark(); !ok || rev != 1 {
		t.Error("a bookmark says", rev, ok)
	}
}

func TestAWatchReadsAheadABoundedAmount(t *testing.T) {
	feed := &script{}
	for i := range 20 {
		feed.events = append(feed.events, put("a", "red "+strings.Repeat("x", 1<<20), store.Revision(i+1), nil))
	}
	w := watchRed(&webhook{}, feed)
	for i := range 20 {
		if _, ok, err := w.Next(); !ok || err != nil {
			t.Fatal(i, ok, err)
		}
		if ahead := 20 - i - 1 - len(feed.events); ahead > 4 {
			t.Fatalf("%d events of 1 MiB were read ahead", ahead)
		}
	}
}

func TestAWatchThatCannotConvertItsInitialStateLeavesNothingOpen(t *testing.T) {
	w := newWorld(t, 0)
	w.create(1)
	kind := *w.maps.kind
	kind.Representation = &failing{}
	s := &Storage{objects: w.maps.objects, kind: &kind}
	_, selection := red(nil)
	if _, err := s.Watch(t.Context(), WatchQuery{Selection: selection, Initial: true}); err == nil {
		t.Error("the watch began")
	}
	if _, watched := w.maps.Size(); watched != 0 {
		t.Errorf("%d watches are open", watched)
	}
	if _, err := s.List(t.Context(), ListQuery{Selection: selection, Limit: 1}); err == nil {
		t.Error("the list succeeded")
	}
}

// failing is a webhook that converts nothing.
type failing struct{ webhook }

func (f *failing) VersionAttributes(_ context.Context, stored [][]byte) []resource.VersionAttributes {
	out := make([]resource.VersionAttributes, len(stored))
	for i := range out {
		out[i].Err = errWebhook
	}
	return out
}

func TestAWatchOfAKindWithoutAWebhookAllocatesNothingForAnEvent(t *testing.T) {
	feed := &script{}
	for i := range 2 * maxSkipped { // AllocsPerRun runs the function once before it counts
		feed.events = append(feed.events, added("a", store.Revision(i+1)))
	}
	selection := Select(&resource.Face{Of: &resource.Kind{Identity: &resource.Identity{}}}, "", "", labels.SelectorFromSet(labels.Set{"x": "y"}), fields.OneTermNotEqualSelector("metadata.name", "b"))
	w := &Watcher{selection: selection, feed: feed}
	if n := testing.AllocsPerRun(1, func() { _, _, _ = w.Next() }); n > 0 {
		t.Errorf("%d skipped events take %v allocations", maxSkipped, n)
	}
}
