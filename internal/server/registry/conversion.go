package registry

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// maxConverted is how many objects are converted at a time to find out which of them are selected.
const maxConverted = 2000

// needsConversion reports whether objects may have to be converted before it is known whether they are selected: labels
// and fields are those of the requested version, and a webhook makes that version.
func (s *Storage) needsConversion(by *Selection) bool {
	return resource.IsForeign(s.kind) && by.byContent()
}

// match reports whether an object is selected. If err is set, that is unknown.
type match struct {
	selected bool
	err      error
}

// matchConverted finds out which objects are selected in the requested version. Those that are stored in another
// version are converted together.
func (s *Storage) matchConverted(ctx context.Context, by *Selection, objects []*watchcache.Object) []match {
	kind := s.kind.Representation.(resource.Foreign)
	out := make([]match, len(objects))
	var stored [][]byte
	var places []int
	for i, o := range objects {
		switch {
		case !by.matchesName(o):
		case kind.StoredInVersion(o.Fields):
			out[i].selected = by.Matches(o)
		default:
			stored, places = append(stored, o.Value()), append(places, i)
		}
	}
	if len(stored) == 0 {
		return out
	}
	for i, converted := range kind.VersionAttributes(ctx, stored) {
		at := places[i]
		if converted.Err != nil {
			out[at].err = statusOf(converted.Err, s.kind.GroupResource(), objects[at].Name())
			continue
		}
		a := cacheAttributes(converted.Attributes)
		out[at].selected = by.matches(objects[at], &a)
	}
	return out
}

// selectConverted returns the selected objects.
func (s *Storage) selectConverted(ctx context.Context, by *Selection, objects []*watchcache.Object) ([]*watchcache.Object, error) {
	var out []*watchcache.Object
	for some := range slices.Chunk(objects, maxConverted) {
		for i, m := range s.matchConverted(ctx, by, some) {
			if m.err != nil {
				return nil, m.err
			}
			if m.selected {
				out = append(out, some[i])
			}
		}
	}
	return out, nil
}

// convertedView is the selected part of a view. It is used for one call.
type convertedView struct {
	view
	ctx       context.Context
	storage   *Storage
	selection Selection
	limit     int   // of the page that is read; zero is none
	err       error // why Get or Range ended early
}

func (v *convertedView) Get(key string) (*watchcache.Object, bool) {
	o, ok := v.view.Get(key)
	if !ok {
		return nil, false
	}
	m := v.storage.matchConverted(v.ctx, &v.selection, []*watchcache.Object{o})[0]
	v.err = m.err
	return o, m.selected
}

// Range converts only a few objects at first if there is a limit, because the page may be full with them.
func (v *convertedView) Range(prefix, after string) iter.Seq[*watchcache.Object] {
	size := maxConverted
	if v.limit > 0 {
		size = min(v.limit+1, maxConverted)
	}
	return func(yield func(*watchcache.Object) bool) {
		var some []*watchcache.Object
		flush := func() bool {
			for i, m := range v.storage.matchConverted(v.ctx, &v.selection, some) {
				if v.err = m.err; v.err != nil || m.selected && !yield(some[i]) {
					return false
				}
			}
			some, size = some[:0], min(2*size, maxConverted)
			return true
		}
		for o := range v.view.Range(prefix, after) {
			if some = append(some, o); len(some) == size && !flush() {
				return
			}
		}
		flush()
	}
}

// convertedFeed reads several events at once, so that their objects are converted together, and keeps the selected
// ones.
type convertedFeed struct {
	feed
	ctx       context.Context // of the watch
	storage   *Storage
	selection *Selection
	ready     []convertedEvent
}

// convertedEvent is a selected event. If err is set, it is unknown whether the event is selected, and only its revision
// is set.
type convertedEvent struct {
	Event
	err error
}

// follow makes a watcher read the events of a feed.
func (w *Watcher) follow(ctx context.Context, s *Storage, f feed) {
	w.feed = f
	if s.needsConversion(&w.selection) {
		w.converted = &convertedFeed{feed: f, ctx: ctx, storage: s, selection: &w.selection}
		w.feed = w.converted
	}
}

// next returns the next selected event. ok has the meaning that it has in Watcher.Next. An error is final.
func (f *convertedFeed) next() (e Event, ok bool, err error) {
	if len(f.ready) == 0 {
		if err := f.fill(); err != nil || len(f.ready) == 0 {
			return Event{}, false, err
		}
	}
	first := f.ready[0]
	if first.err != nil {
		return Event{}, false, first.err
	}
	f.ready[0] = convertedEvent{} // a watch that sleeps keeps no objects alive
	f.ready = f.ready[1:]
	return first.Event, true, nil
}

// maxReadAhead bounds the bytes of the objects that a watch reads ahead: they stay in memory even if the cache has
// dropped them.
const maxReadAhead = 4 << 20

// fill reads the events that are available now, within limits.
func (f *convertedFeed) fill() error {
	f.ready = nil
	var sources []*watchcache.Event
	var objects []*watchcache.Object
	for bytes := 0; len(sources) < maxSkipped && bytes < maxReadAhead; {
		source, ok, err := f.feed.Next()
		if err != nil && len(sources) == 0 {
			return err
		}
		if err != nil || !ok { // the next call returns the error again
			break
		}
		sources = append(sources, source)
		if source.Type != watchcache.Deleted {
			objects, bytes = append(objects, source.Object), bytes+source.Object.Size()
		}
		if source.Previous != nil {
			objects, bytes = append(objects, source.Previous), bytes+source.Previous.Size()
		}
	}
	matches := f.storage.matchConverted(f.ctx, f.selection, objects)
	for _, source := range sources {
		var now, before match
		if source.Type != watchcache.Deleted {
			now, matches = matches[0], matches[1:]
		}
		if source.Previous != nil {
			before, matches = matches[0], matches[1:]
		}
		if err := cmp.Or(now.err, before.err); err != nil {
			f.ready = append(f.ready, convertedEvent{Event{Revision: source.Revision}, err})
			return nil
		}
		if e, selected := selectedEvent(source, now.selected, before.selected); selected {
			f.ready = append(f.ready, convertedEvent{Event: e})
		}
	}
	return nil
}

func (f *convertedFeed) Wake() <-chan struct{} {
	if len(f.ready) > 0 {
		return closed
	}
	return f.feed.Wake()
}

// Revision is below that of the events that were read and not yet returned.
func (f *convertedFeed) Revision() store.Revision {
	if len(f.ready) > 0 {
		return f.ready[0].Revision - 1
	}
	return f.feed.Revision()
}
