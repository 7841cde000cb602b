package registry

import (
	"context"
	"errors"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// Names are those of the objects that somebody is shown, at one time.
type Names struct {
	All bool
	// Sorted has the names unless they are all.
	Sorted []string
	// Revision is the state of the cluster that they are from, and Changed that of their last change, or of an earlier
	// one.
	Revision, Changed store.Revision
}

func (n *Names) shows(name string) bool {
	_, found := slices.BinarySearch(n.Sorted, name)
	return n.All || found
}

func (n *Names) same(as *Names) bool {
	return n.All == as.All && (n.All || slices.Equal(n.Sorted, as.Sorted))
}

// NamesAt returns the names at a revision or a later one. A client of a watch is told its errors.
type NamesAt func(context.Context, store.Revision) (*Names, error)

// narrowed is a watch of objects whose names change: an object appears when its name does, and disappears with it.
type narrowed struct {
	ctx     context.Context
	storage *Storage
	at      NamesAt
	names   *Names
	shown   map[string]*watchcache.Object // what the client has, by name
	waiting []Event
	source  *watchcache.Event // taken from the feed, and not yet looked at
	passed  store.Revision    // of the last event of the feed that has been looked at
}

// WatchNames starts a watch of the objects of a kind without namespaces that have certain names. An object is ADDED
// when its name appears, with its own resource version, and DELETED when the name disappears, with a version from
// before that. Both may be lower than versions before. A watch that begins after a revision fails with 410 if the names
// have changed since. The caller must close it.
func (s *Storage) WatchNames(ctx context.Context, q WatchQuery, at NamesAt) (*Watcher, error) {
	if s.cached == nil {
		return nil, apierrors.NewInternalError(errors.New("names can only be watched in the cache"))
	}
	from := q.Freshness
	if q.Initial && from.Revision > 0 { // the client gets a newer state first
		if err := s.await(ctx, from); err != nil {
			return nil, err
		}
		from = Freshness{Any: true}
	}
	w, err := s.Watch(ctx, WatchQuery{Selection: q.Selection, Freshness: from})
	if err != nil {
		return nil, err
	}
	n := &narrowed{ctx: ctx, storage: s, at: at, shown: map[string]*watchcache.Object{}}
	if err := n.begin(w, q); err != nil {
		w.Close()
		return nil, err
	}
	w.narrowed = n
	return w, nil
}

// begin finds out what the client has, or gets, before the first event.
func (n *narrowed) begin(w *Watcher, q WatchQuery) (err error) {
	from := w.InitialRevision
	if from == 0 {
		from = q.Revision
	}
	n.passed = from
	if n.names, err = n.at(n.ctx, from); err != nil {
		return err
	}
	if resumes := q.Revision > 0 && !q.Initial; resumes && n.names.Changed > from {
		return watchError(watchcache.ErrExpired, n.storage)
	}
	snapshot, err := n.storage.cached.SnapshotAt(from)
	if err != nil {
		return watchError(err, n.storage)
	}
	list, err := n.list(snapshot, q.Selection)
	if err != nil {
		return err
	}
	for _, o := range list.Objects {
		n.shown[n.name(o)] = o
	}
	if q.Initial {
		w.Initial = list.Objects
	}
	return nil
}

// list reads the selected objects whose names are shown.
func (n *narrowed) list(from view, of Selection) (*List, error) {
	return n.storage.page(n.ctx, from, ListQuery{Selection: of, Names: n.names}, of.prefix(n.storage), "")
}

func (n *narrowed) name(o *watchcache.Object) string { return o.Key[len(n.storage.prefix):] }

// next is the next event of a watch.
func (n *narrowed) next(w *Watcher) (Event, bool, error) {
	for range maxSkipped {
		if e, ok := n.shift(); ok {
			return e, true, nil
		}
		if err := n.take(w); err != nil {
			return Event{}, false, err
		}
		if err := n.follow(w); err != nil {
			return Event{}, false, err
		}
		if len(n.waiting) > 0 {
			continue // the source comes after what the names have changed before it
		}
		if n.source == nil {
			return Event{}, false, nil
		}
		source := n.source
		n.source, n.passed = nil, source.Revision
		if e, ok := n.event(w, source); ok {
			return e, true, nil
		}
	}
	e, ok := n.shift()
	return e, ok, nil
}

// shift is the first of the events that wait.
func (n *narrowed) shift() (e Event, ok bool) {
	if len(n.waiting) == 0 {
		return e, false
	}
	e, n.waiting = n.waiting[0], n.waiting[1:]
	return e, true
}

// take takes the next event from the feed, if there is one and no other is being looked at.
func (n *narrowed) take(w *Watcher) (err error) {
	if n.source == nil {
		n.source, _, err = w.feed.Next()
	}
	return err
}

// follow notes how the names have changed, and leaves the events of that to be sent. Names that were taken away before
// the next event of the feed must not show it.
func (n *narrowed) follow(w *Watcher) error {
	var least store.Revision
	if n.source != nil {
		least = n.source.Revision
	}
	names, err := n.at(n.ctx, least)
	if err != nil {
		return err
	}
	before := n.names
	n.names = names
	if names.Changed == before.Changed || names.same(before) {
		return nil
	}
	if err := n.appear(w, before); err != nil {
		return err
	}
	n.disappear()
	return nil
}

// appear leaves the objects to be sent whose names are shown now and were not before. Those that have changed after the
// last event of the feed come with their own next events.
func (n *narrowed) appear(w *Watcher, before *Names) error {
	list, err := n.list(n.storage.cached.Snapshot(), w.selection)
	if err != nil {
		return err
	}
	for _, o := range list.Objects {
		if name := n.name(o); o.Revision <= n.passed && n.shown[name] == nil && !before.shows(name) {
			n.shown[name] = o
			n.waiting = append(n.waiting, Event{Type: watch.Added, Object: o, Revision: o.Revision})
		}
	}
	return nil
}

// disappear leaves those to be taken away whose names are not shown any more. The events have a revision before the
// change of the names: a client that has got only some of what the change brings, and goes on from there, is told that
// its position has expired.
func (n *narrowed) disappear() {
	for _, name := range slices.Sorted(maps.Keys(n.shown)) {
		if !n.names.shows(name) {
			n.waiting = append(n.waiting, Event{Type: watch.Deleted, Object: n.shown[name], Revision: n.names.Changed - 1})
			delete(n.shown, name)
		}
	}
}

// event is what a change of an object means to the client. It may be older than what the client was shown of the object
// when its name appeared.
func (n *narrowed) event(w *Watcher, source *watchcache.Event) (Event, bool) {
	name := n.name(source.Object)
	before := n.shown[name]
	if before != nil && source.Revision <= before.Revision || !n.names.shows(name) {
		return Event{}, false
	}
	now := source.Type != watchcache.Deleted && w.selection.Matches(source.Object)
	delete(n.shown, name)
	if now {
		n.shown[name] = source.Object
	}
	e := Event{Source: source, Object: source.Object, Revision: source.Revision}
	switch {
	case now && before != nil:
		e.Type = watch.Modified
	case now:
		e.Type = watch.Added
	case before != nil:
		e.Type, e.Object = watch.Deleted, before
	default:
		return Event{}, false
	}
	return e, true
}

// complete reports whether the changes of names up to where the feed is have been returned.
func (n *narrowed) complete(w *Watcher) bool {
	if len(n.waiting) > 0 || n.source != nil {
		return false
	}
	names, err := n.at(n.ctx, w.feed.Revision())
	return err == nil && names.Changed == n.names.Changed
}
