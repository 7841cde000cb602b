package registry

import (
	"context"
	"errors"
	"sync"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// watchStore serves a watch from the store: on a kind that is not cached, or of a past that the cache does not have. It
// keeps the selected part of the state as long as the watch is open, because the store does not report previous values.
// That memory is the price of working without a cache.
func (s *Storage) watchStore(ctx context.Context, q WatchQuery) (*Watcher, error) {
	f, initial, err := s.readState(ctx, q)
	if err != nil {
		return nil, err
	}
	w := &Watcher{selection: q.Selection}
	if q.Initial && s.needsConversion(&q.Selection) {
		if initial, err = s.selectConverted(ctx, &w.selection, initial); err != nil {
			return nil, err
		}
	}
	if q.Initial || q.Revision == 0 {
		w.InitialRevision = f.revision
	}
	w.Initial = initial
	w.follow(f.run(ctx, q.prefix(s)), s, f)
	return w, nil
}

// readState reads the state with which a watch begins. What it returns does not run yet. The objects that a client
// wants first are selected, unless that needs a conversion.
func (s *Storage) readState(ctx context.Context, q WatchQuery) (*storeFeed, []*watchcache.Object, error) {
	start := q.Freshness
	start.Exact = q.Revision > 0 && !q.Initial
	prefix := q.prefix(s)
	v, err := s.storedView(ctx, start, prefix, "", 0)
	if start.Exact && apierrors.IsTimeout(err) { // the store has not given this revision
		if err := s.checkGiven(ctx, q.Revision); err != nil {
			return nil, nil, err
		}
		v, err = s.storedView(ctx, Freshness{}, prefix, "", 0) // events up to it are not shown
	}
	if err != nil {
		return nil, nil, err
	}
	f := &storeFeed{storage: s, after: q.Revision, state: map[string]*watchcache.Object{}, revision: v.Revision(), wake: make(chan struct{})}
	var initial []*watchcache.Object
	convert := s.needsConversion(&q.Selection)
	for o := range v.Range(prefix, "") {
		f.state[o.Key] = o
		if q.Initial && (convert || q.Matches(o)) {
			initial = append(initial, o)
		}
	}
	return f, initial, v.err
}

// storeFeed converts a watch on the store to events with previous objects.
type storeFeed struct {
	storage *Storage
	cancel  context.CancelFunc
	closed  <-chan struct{} // closed when nobody reads any more
	running sync.WaitGroup
	after   store.Revision
	state   map[string]*watchcache.Object // used only by the watch

	mu       sync.Mutex // guards everything below
	events   []*watchcache.Event
	bytes    int // of the events that came since there were none
	revision store.Revision
	wake     chan struct{}
	taken    chan struct{} // closed when all events have been read; nil unless somebody waits for that
	err      error
}

// most and mostBytes are how much waits for a slow reader. The store's watch waits then, and does not read on.
const (
	most      = 10_000
	mostBytes = 16 << 20
)

// run follows the store until the feed is closed or ctx ends.
func (f *storeFeed) run(ctx context.Context, prefix string) context.Context {
	ctx, f.cancel = context.WithCancel(ctx)
	f.closed = ctx.Done()
	from := f.revision
	f.running.Go(func() { f.end(f.storage.registry.Store.Watch(ctx, prefix, from, f.take)) })
	return ctx
}

func (f *storeFeed) take(b store.Batch) error {
	var events []*watchcache.Event
	for _, e := range b.Events {
		if made := f.apply(e); made != nil && e.Revision > f.after {
			events = append(events, made)
		}
	}
	f.mu.Lock()
	f.events = append(f.events, events...)
	f.revision = max(f.revision, b.Revision)
	f.nudgeLocked()
	var taken chan struct{}
	for _, e := range events {
		f.bytes += e.Object.Size()
	}
	if len(f.events) > most || f.bytes > mostBytes {
		taken = make(chan struct{})
		f.taken = taken
	}
	f.mu.Unlock()
	if taken != nil {
		select {
		case <-taken:
		case <-f.closed:
		}
	}
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
	if f.events = f.events[1:]; len(f.events) > 0 {
		return e, true, nil
	}
	if f.bytes = 0; f.taken != nil {
		close(f.taken)
		f.taken = nil
	}
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
