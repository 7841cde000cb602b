package registry

import (
	"context"
	"errors"
	"sync"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// watchStore serves a watch on a kind that is not cached. It keeps the selected part of the state as long as the watch
// is open, because the store does not report previous values. That memory is the price of working without a cache.
func (s *Storage) watchStore(ctx context.Context, q WatchQuery) (*Watcher, error) {
	start := q.Freshness
	start.Exact = q.Revision > 0 && !q.Initial
	prefix := q.prefix(s)
	v, err := s.storedView(ctx, start, prefix, "", 0)
	if start.Exact && apierrors.IsTimeout(err) { // the store has not given this revision
		if err := s.checkGiven(ctx, q.Revision); err != nil {
			return nil, err
		}
		v, err = s.storedView(ctx, Freshness{}, prefix, "", 0) // events up to it are not shown
	}
	if err != nil {
		return nil, err
	}
	w := &Watcher{selection: q.Selection}
	f := &storeFeed{storage: s, after: q.Revision, state: map[string]*watchcache.Object{}, revision: v.Revision(), wake: make(chan struct{})}
	var initial []*watchcache.Object
	convert := s.needsConversion(&q.Selection)
	for o := range v.Range(prefix, "") {
		f.state[o.Key] = o
		if q.Initial && (convert || q.Matches(o)) {
			initial = append(initial, o)
		}
	}
	if v.err != nil {
		return nil, v.err
	}
	if convert {
		if initial, err = s.selectConverted(ctx, &w.selection, initial); err != nil {
			return nil, err
		}
	}
	if !start.Exact {
		w.InitialRevision = v.Revision()
	}
	w.Initial = initial
	ctx, f.cancel = context.WithCancel(ctx)
	w.follow(ctx, s, f)
	f.running.Go(func() {
		f.end(s.registry.Store.Watch(ctx, prefix, v.Revision(), f.take))
	})
	return w, nil
}

// storeFeed converts a watch on the store to events with previous objects.
type storeFeed struct {
	storage *Storage
	cancel  context.CancelFunc
	running sync.WaitGroup
	after   store.Revision
	state   map[string]*watchcache.Object // used only by the watch

	mu       sync.Mutex // guards everything below
	events   []*watchcache.Event
	revision store.Revision
	wake     chan struct{}
	err      error
}

// most is how far a reader may lag behind: a watch on the store has no window that would bound it.
const most = 100_000

func (f *storeFeed) take(b store.Batch) error {
	var events []*watchcache.Event
	for _, e := range b.Events {
		if made := f.apply(e); made != nil && e.Revision > f.after {
			events = append(events, made)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.events)+len(events) > most {
		return apierrors.NewResourceExpired("the watch fell too far behind")
	}
	f.events = append(f.events, events...)
	f.revision = max(f.revision, b.Revision)
	f.nudgeLocked()
	return nil
}

func (f *storeFeed) apply(e store.Event) *watchcache.Event {
	before := f.state[e.Key]
	var now *watchcache.Object
	unreadable := e.Unreadable != nil
	if e.Type != store.Delete && !unreadable {
		var err error
		now, err = f.storage.object(store.Entry{Key: e.Key, Value: e.Value, Revision: e.Revision})
		unreadable = err != nil
	}
	if e.Type == store.Delete || unreadable {
		delete(f.state, e.Key)
		if before == nil {
			return nil
		}
		return &watchcache.Event{Type: watchcache.Deleted, Object: before, Previous: before, Revision: e.Revision}
	}
	f.state[e.Key] = now
	made := &watchcache.Event{Type: watchcache.Modified, Object: now, Previous: before, Revision: e.Revision}
	if before == nil {
		made.Type = watchcache.Added
	}
	return made
}

func (f *storeFeed) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	if errors.Is(err, store.ErrCompacted) {
		f.err = watchcache.ErrExpired
	}
	f.nudgeLocked()
}

func (f *storeFeed) nudgeLocked() {
	close(f.wake)
	f.wake = make(chan struct{})
}

func (f *storeFeed) Next() (*watchcache.Event, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.events) == 0 {
		return nil, false, f.err
	}
	e := f.events[0]
	f.events = f.events[1:]
	return e, true, nil
}

func (f *storeFeed) Wake() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.events) > 0 || f.err != nil {
		return closed
	}
	return f.wake
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (f *storeFeed) Revision() store.Revision {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.events) > 0 {
		return f.events[0].Revision - 1
	}
	return f.revision
}

func (f *storeFeed) Close() {
	f.cancel()
	f.running.Wait()
}
