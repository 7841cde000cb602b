package apiserver

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/watchcache"
)

func (c *call) watch() error {
	o, err := parseListOptions(withWatch(c), c.face)
	if err != nil {
		return err
	}
	q := registry.WatchQuery{
		Selection: registry.Select(c.face, c.t.Namespace, c.t.Name, o.labels, o.fields),
		Freshness: o.fresh,
		Initial:   o.initialEvents != nil && *o.initialEvents,
	}
	frames, err := c.frames()
	if err != nil {
		return err
	}
	w, err := c.storage.Watch(c.r.Context(), q)
	if err != nil {
		// A watch from a version that is gone opens, and says so: clients expect it there.
		if !apierrors.IsResourceExpired(err) {
			return err
		}
		_, done, openErr := c.openStream(frames)
		if openErr != nil {
			return nil
		}
		defer done()
		frames.fault(statusFor(err))
		frames.end()
		return nil
	}
	defer w.Close()
	s := &stream{call: c, watcher: w, frames: frames, bookmarks: o.bookmarks, timeout: c.watchTimeout(o)}
	s.mark = q.Initial
	ctx, done, err := c.openStream(frames)
	if err != nil {
		return nil // and has been answered
	}
	defer done()
	s.run(ctx)
	return nil
}

func withWatch(c *call) map[string][]string {
	q := c.r.URL.Query()
	q.Set("watch", "true")
	return q
}

// longestWatch, in seconds, is as good as for ever, and a time.Duration can hold it.
const longestWatch = 365 * 24 * 3600

// watchTimeout is the caller's, or a random one of at least the server's minimum: so that watches that began together do
// not end together.
func (c *call) watchTimeout(o listOptions) time.Duration {
	if o.timeoutSeconds != nil && *o.timeoutSeconds > 0 {
		return time.Duration(min(*o.timeoutSeconds, longestWatch)) * time.Second
	}
	least := c.s.o.MinRequestTimeout
	return least + time.Duration(rand.Int64N(int64(least)))
}

// openStream begins the answer. The context ends with the caller; done is called when everything has been written. An
// error has been answered already.
func (c *call) openStream(f *frames) (ctx context.Context, done func(), err error) {
	if f.single {
		return c.openSocket(f)
	}
	c.head(f.contentType())
	if f.gzip != nil {
		c.w.Header().Set("Content-Encoding", "gzip")
		c.w.Header().Set("Vary", "Accept-Encoding")
	}
	c.w.WriteHeader(http.StatusOK)
	return c.r.Context(), func() {}, nil
}

// stream is an open watch.
type stream struct {
	call      *call
	watcher   *registry.Watcher
	frames    *frames
	bookmarks bool
	mark      bool // the initial events' end is to be marked
	timeout   time.Duration
}

// errChanged ends a stream whose objects would be shown in another way from here on: their definition has changed.
var errChanged = errors.New("the definition of the kind has changed")

// errLongEnough ends a stream that its client could still read.
var errLongEnough = errors.New("the watch has lasted as long as it may")

// run writes frames while there are any, flushes, and sleeps until there are more. What it sleeps on is little, and its own
// but for the one channel that all who follow a topic are woken by: each wake-up locks all of it, and timers with channels
// would be put into the scheduler's heap each time.
func (s *stream) run(ctx context.Context) {
	defer s.frames.end()
	if !s.initial() {
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.call.s.ends, func() { cancel(errEnding) })()
	defer s.call.kind.Life.OnEnd(func() { cancel(errChanged) })()
	defer time.AfterFunc(s.timeout, func() { cancel(errLongEnough) }).Stop()
	var due chan struct{}
	var bell *time.Timer
	if s.bookmarks {
		due = make(chan struct{}, 1)
		bell = time.AfterFunc(s.bookmarkPeriod(), func() { due <- struct{}{} })
		defer bell.Stop()
	}
	done := ctx.Done()
	for s.drain() {
		select {
		case <-s.watcher.Wake():
		case <-due:
			s.bookmark()
			bell.Reset(s.bookmarkPeriod())
		case <-done:
			if context.Cause(ctx) == errLongEnough {
				s.lastBookmark()
			}
			return
		}
	}
}

func (s *stream) bookmarkPeriod() time.Duration {
	period := s.call.s.o.BookmarkPeriod
	return period - time.Duration(rand.Int64N(int64(period/4)+1))
}

// lastBookmark lets a client whose watch ends in time go on from here.
func (s *stream) lastBookmark() {
	if s.bookmarks {
		s.bookmark()
	}
}

func (s *stream) bookmark() {
	if rev, ok := s.watcher.Bookmark(); ok {
		s.frames.bookmark(rev, false)
	}
}

// initial writes the state, and its end's mark if the caller asked for it.
func (s *stream) initial() bool {
	s.call.meter.Initial(len(s.watcher.Initial))
	for _, o := range s.watcher.Initial {
		s.frames.added(o)
		if s.frames.err != nil {
			return false
		}
	}
	s.watcher.Initial = nil
	if s.mark && s.bookmarks {
		s.frames.bookmark(s.watcher.InitialRevision, true)
	}
	return true
}

// turn is how many events a stream takes before it looks at what else has happened: its time may be up.
const turn = 1000

// drain writes the events that are there, or as many as are a turn, and flushes them. It tells whether the watch goes on.
func (s *stream) drain() bool {
	for range turn {
		e, ok, err := s.watcher.Next()
		switch {
		case err != nil:
			s.over(err)
			return false
		case !ok:
			s.frames.flush()
			return s.frames.err == nil
		}
		if s.frames.event(e); s.frames.err != nil {
			return false
		}
	}
	s.frames.flush()
	return s.frames.err == nil
}

// over ends the stream: with a word about it if the client has to list again because it was too slow.
func (s *stream) over(err error) {
	switch {
	case errors.Is(err, watchcache.ErrExpired):
		s.frames.fault(statusFor(apierrors.NewResourceExpired("the watch fell too far behind: too old resource version")))
	case errors.Is(err, context.Canceled), errors.Is(err, watchcache.ErrRefilled), errors.Is(err, watchcache.ErrGone), errors.Is(err, watchcache.ErrStopped):
	default:
		s.frames.fault(statusFor(err))
	}
}

// initialEventsEnd is the annotation on the bookmark behind the initial events.
const initialEventsEnd = metav1.InitialEventsAnnotationKey
