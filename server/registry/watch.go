package registry

import (
	"context"
	"errors"
	"net/http"

	"github.com/millrace/millrace/server/store"
	"github.com/millrace/millrace/server/watchcache"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// WatchQuery is what a watch asks for.
type WatchQuery struct {
	Selection
	Freshness
	// Initial sends the state first, as additions; Events are those after it. Without it the watch starts after Revision,
	// or from now.
	Initial bool
}

// Change of one object, as a watcher sees it through its selection.
type Event struct {
	Type   watch.EventType
	Object *watchcache.Object
	// Revision is the event's; it differs from the object's when the object is the last state before it went away.
	Revision store.Revision
	// Source is the cache's event, or nil for the initial state. Its forms may be used when Type is its own type.
	Source *watchcache.Event
}

// feed is where events come from: a cursor of the cache, or a watch on the store.
type feed interface {
	Next() (*watchcache.Event, bool, error)
	Wake() <-chan struct{}
	Revision() store.Revision
	Close()
}

// Watcher hands out what a watch selects. It is used by one goroutine.
type Watcher struct {
	// Initial is the state that comes first, and InitialRevision what it shows; zero if none was asked for.
	Initial         []*watchcache.Object
	InitialRevision store.Revision

	selection Selection
	feed      feed
	handed    store.Revision // the last event's
}

// Watch finds the place of a watch. The caller closes it.
func (s *Storage) Watch(ctx context.Context, q WatchQuery) (*Watcher, error) {
	if s.cached == nil {
		return s.watchStore(ctx, q)
	}
	w := &Watcher{selection: q.Selection}
	topic := q.topic(s)
	if q.Revision > 0 && !q.Initial {
		if !s.cached.Ready() {
			if err := s.await(ctx, Freshness{Any: true}); err != nil {
				return nil, err
			}
		}
		cursor, err := s.cached.Watch(q.Revision, topic)
		w.feed = cursor
		return w, watchError(err, s)
	}
	if err := s.await(ctx, q.Freshness); errors.Is(err, errLogStalled) {
		return nil, unavailable(http.StatusServiceUnavailable, err.Error())
	} else if err != nil {
		return nil, err
	}
	snapshot, cursor, err := s.cached.WatchFromNow(topic)
	if err != nil {
		return nil, watchError(err, s)
	}
	w.feed = cursor
	w.InitialRevision = snapshot.Revision()
	if q.Initial {
		initial, err := s.page(snapshot, ListQuery{Selection: q.Selection}, q.prefix(s), "")
		if err != nil {
			return nil, err
		}
		w.Initial = initial.Objects
	}
	return w, nil
}

func watchError(err error, s *Storage) error {
	if errors.Is(err, watchcache.ErrExpired) {
		return apierrors.NewResourceExpired("too old resource version")
	}
	return statusOf(err, s.kind.GroupResource(), "")
}

// mostSkipped is how many events in a row may be left out before Next returns, so that the caller can send a bookmark or end.
const mostSkipped = 1000

// Next returns the next selected event; ok is false when there is none right now, or none among many: then it is worth
// calling again at once, and Wake says so.
func (w *Watcher) Next() (e Event, ok bool, err error) {
	for range mostSkipped {
		source, ok, err := w.feed.Next()
		if err != nil || !ok {
			return Event{}, false, err
		}
		if e, selected := w.selection.see(source); selected {
			w.handed = e.Revision
			return e, true, nil
		}
	}
	return Event{}, false, nil
}

// see tells what an event is to a client that watches only the selected objects.
func (s *Selection) see(source *watchcache.Event) (Event, bool) {
	e := Event{Source: source, Object: source.Object, Revision: source.Revision}
	now := source.Type != watchcache.Deleted && s.Matches(source.Object)
	before := source.Previous != nil && s.Matches(source.Previous)
	switch {
	case now && before:
		e.Type = watch.Modified
	case now:
		e.Type = watch.Added
	case before:
		e.Type, e.Object = watch.Deleted, source.Previous
	default:
		return Event{}, false
	}
	return e, true
}

// Wake is closed when Next may have something; it is good until the next call of Next.
func (w *Watcher) Wake() <-chan struct{} { return w.feed.Wake() }

// Bookmark tells that everything up to a revision has been handed out. There is none while that is before the last event:
// others of the same revision might follow, and a client that went on from the bookmark would see that one twice.
func (w *Watcher) Bookmark() (store.Revision, bool) {
	rev := w.feed.Revision()
	return rev, rev >= w.handed
}

// Close lets go of the watch's place.
func (w *Watcher) Close() { w.feed.Close() }
