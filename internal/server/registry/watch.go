package registry

import (
	"context"
	"errors"
	"net/http"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// WatchQuery says what to watch.
type WatchQuery struct {
	Selection
	Freshness
	// Initial sends the current state first, as ADDED events, and then the events after it. Without it the watch starts
	// after Revision, or now.
	Initial bool
}

// Event is a change of one object, as a watcher sees it through its selection.
type Event struct {
	Type   watch.EventType
	Object *watchcache.Object
	// Revision is the revision of the event. It differs from the object's if the object is a deleted object's last
	// state.
	Revision store.Revision
	// Source is the cache's event, or nil for the initial state. Its forms may be used if Type equals its own type.
	Source *watchcache.Event
}

// feed is a source of events: a cursor of the cache, or a watch on the store.
type feed interface {
	Next() (*watchcache.Event, bool, error)
	Wake() <-chan struct{}
	Revision() store.Revision
	Close()
}

// Watcher returns the events that a watch selects. Only one goroutine may use it.
type Watcher struct {
	// Initial is the state that comes first, and InitialRevision its revision, or zero if none was requested.
	Initial         []*watchcache.Object
	InitialRevision store.Revision

	selection Selection
	feed      feed
	converted *convertedFeed // the feed, if objects must be converted to find out which are selected
	narrowed  *narrowed      // nil unless only some names are shown
	handed    store.Revision // the revision of the last event
}

// Watch starts a watch. The caller must close it.
func (s *Storage) Watch(ctx context.Context, q WatchQuery) (*Watcher, error) {
	if s.cached == nil || q.Stored {
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
		if err := s.checkGiven(ctx, q.Revision); err != nil {
			return nil, err
		}
		cursor, err := s.cached.Watch(q.Revision, topic)
		if errors.Is(err, watchcache.ErrExpired) {
			return s.catchUp(ctx, q, watchError(err, s))
		}
		w.follow(ctx, s, cursor)
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
	w.follow(ctx, s, cursor)
	w.InitialRevision = snapshot.Revision()
	if q.Initial {
		initial, err := s.page(ctx, snapshot, ListQuery{Selection: q.Selection}, q.prefix(s), "")
		if err != nil {
			w.Close()
			return nil, err
		}
		w.Initial = initial.Objects
	}
	return w, nil
}

// checkGiven refuses a revision that the store has never given: it is from before the store was restored. A watch from
// there would show nothing until the store has come as far again, and miss what happens until then. A store that does
// not answer leaves the question open.
func (s *Storage) checkGiven(ctx context.Context, rev store.Revision) error {
	cache := s.registry.Cache
	if rev <= cache.Revision() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, futureWait)
	defer cancel()
	if newest, err := cache.Newest(ctx); err == nil && rev > newest {
		return apierrors.NewResourceExpired("too new resource version: " + rev.String() + ", the store is at " + newest.String() + " and may have been restored")
	}
	return nil
}

func watchError(err error, s *Storage) error {
	if errors.Is(err, watchcache.ErrExpired) || errors.Is(err, watchcache.ErrReplaced) {
		return apierrors.NewResourceExpired("too old resource version")
	}
	return statusOf(err, s.kind.GroupResource(), "")
}

// maxSkipped is how many consecutive events may be skipped before Next returns, so that the caller can send a bookmark
// or end.
const maxSkipped = 1000

// Next returns the next selected event. If ok is false, there is none now, or many events were skipped. In the second
// case Wake is already closed, so that the caller calls Next again at once.
func (w *Watcher) Next() (e Event, ok bool, err error) {
	if w.narrowed != nil {
		if e, ok, err = w.narrowed.next(w); ok {
			w.handed = max(w.handed, e.Revision)
		}
		return e, ok, err
	}
	if w.converted != nil {
		if e, ok, err = w.converted.next(); ok {
			w.handed = e.Revision
		}
		return e, ok, err
	}
	for range maxSkipped {
		source, ok, err := w.feed.Next()
		if err != nil || !ok {
			return Event{}, false, err
		}
		if e, selected := w.selection.eventFor(source); selected {
			w.handed = e.Revision
			return e, true, nil
		}
	}
	return Event{}, false, nil
}

// eventFor returns the event that a client gets that watches only the selected objects.
func (s *Selection) eventFor(source *watchcache.Event) (Event, bool) {
	now := source.Type != watchcache.Deleted && s.Matches(source.Object)
	before := source.Previous != nil && s.Matches(source.Previous)
	return selectedEvent(source, now, before)
}

// selectedEvent returns the event that a client gets, from whether the object is selected now and whether it was
// before.
func selectedEvent(source *watchcache.Event, now, before bool) (Event, bool) {
	e := Event{Source: source, Object: source.Object, Revision: source.Revision}
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

// Wake returns a channel that is closed when Next may have an event. It is valid until the next call of Next.
func (w *Watcher) Wake() <-chan struct{} {
	if w.narrowed != nil && len(w.narrowed.waiting) > 0 {
		return closed
	}
	return w.feed.Wake()
}

// Bookmark returns a revision up to which everything has been returned. There is no bookmark below the revision of the
// last event: a client that continued from it would get that event twice.
func (w *Watcher) Bookmark() (store.Revision, bool) {
	if w.narrowed != nil && !w.narrowed.complete(w) {
		return 0, false
	}
	rev := w.feed.Revision()
	return rev, rev >= w.handed
}

// Close ends the watch.
func (w *Watcher) Close() { w.feed.Close() }
