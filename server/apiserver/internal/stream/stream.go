package stream

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/server/apiserver/internal/answer"
	"github.com/millrace/millrace/server/apiserver/internal/status"
	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
	"github.com/millrace/millrace/server/watchcache"
)

// Stream is an open watch.
type Stream struct {
	Answer *answer.Answer
	Meter  meter
	// ends ends when the server ends its streams; sockets counts the WebSockets that are open.
	Ends    context.Context
	Sockets *sync.WaitGroup

	watcher   *registry.Watcher
	frames    *frames
	Bookmarks bool
	Mark      bool          // the initial events' end is to be marked
	Period    time.Duration // of bookmarks
	Timeout   time.Duration
}

// meter counts what is sent.
type meter interface {
	// Sent counts an event of a watch, Initial how many objects a watch began with.
	Sent(bytes int)
	Initial(events int)
}

// Prepare finds out how events are to be written. It refuses formats that cannot be streamed.
func (s *Stream) Prepare() (err error) {
	s.frames, err = newFrames(s.Answer, s.Meter)
	return err
}

// Refuse opens the stream, says why there will be no events, and ends it.
func (s *Stream) Refuse(why *metav1.Status) {
	_, done, err := s.open()
	if err != nil {
		return // and has been answered
	}
	defer done()
	s.frames.fault(why)
	s.frames.end()
}

// Serve writes the events of a watch until it ends.
func (s *Stream) Serve(w *registry.Watcher) {
	s.watcher = w
	ctx, done, err := s.open()
	if err != nil {
		return // and has been answered
	}
	defer done()
	s.run(ctx)
}

// open begins the answer. The context ends with the caller; done is called when everything has been written. An
// error has been answered already.
func (s *Stream) open() (ctx context.Context, done func(), err error) {
	if s.frames.single {
		return s.openSocket()
	}
	s.Answer.Head(s.frames.contentType())
	if s.frames.gzip != nil {
		s.Answer.Writer.Header().Set("Content-Encoding", "gzip")
		s.Answer.Writer.Header().Set("Vary", "Accept-Encoding")
	}
	s.Answer.Writer.WriteHeader(http.StatusOK)
	return s.Answer.Request.Context(), func() {}, nil
}

// errChanged ends a stream whose objects would be shown in another way from here on: their definition has changed.
var errChanged = errors.New("the definition of the kind has changed")

// errLongEnough ends a stream that its client could still read.
var errLongEnough = errors.New("the watch has lasted as long as it may")

// run writes frames while there are any, flushes, and sleeps until there are more. What it sleeps on is little, and its own
// but for the one channel that all who follow a topic are woken by: each wake-up locks all of it, and timers with channels
// would be put into the scheduler's heap each time.
func (s *Stream) run(ctx context.Context) {
	defer s.frames.end()
	if !s.initial() {
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.Ends, func() { cancel(context.Cause(s.Ends)) })()
	defer s.Answer.Kind.Life.OnEnd(func() { cancel(errChanged) })()
	defer time.AfterFunc(s.Timeout, func() { cancel(errLongEnough) }).Stop()
	var due chan struct{}
	var bell *time.Timer
	if s.Bookmarks {
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

func (s *Stream) bookmarkPeriod() time.Duration {
	return s.Period - time.Duration(rand.Int64N(int64(s.Period/4)+1))
}

// lastBookmark lets a client whose watch ends in time go on from here.
func (s *Stream) lastBookmark() {
	if s.Bookmarks {
		s.bookmark()
	}
}

func (s *Stream) bookmark() {
	if rev, ok := s.watcher.Bookmark(); ok {
		s.frames.bookmark(rev, false)
	}
}

// initial writes the state, and its end's mark if the caller asked for it.
func (s *Stream) initial() bool {
	s.Meter.Initial(len(s.watcher.Initial))
	for some := range slices.Chunk(s.watcher.Initial, foresight) {
		s.prepare(some)
		for _, o := range some {
			s.frames.added(o)
			if s.frames.err != nil {
				return s.failed()
			}
		}
	}
	s.watcher.Initial = nil
	if s.Mark && s.Bookmarks {
		s.frames.bookmark(s.watcher.InitialRevision, true)
	}
	return true
}

// turn is how many events a stream takes before it looks at what else has happened: its time may be up.
const turn = 1000

// drain writes the events that are there, or as many as are a turn, and flushes them. It tells whether the watch goes on.
func (s *Stream) drain() bool {
	if resource.IsForeign(s.Answer.Kind) {
		return s.drainForeign()
	}
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
			return s.failed()
		}
	}
	s.frames.flush()
	return s.frames.err == nil
}

// failed ends the stream because of an event that could not be written: with a word about it if that was not the client's doing.
func (s *Stream) failed() bool {
	var known apierrors.APIStatus
	if errors.As(s.frames.err, &known) {
		s.frames.err = nil
		s.frames.fault(status.Of(known.(error)))
	}
	return false
}

// over ends the stream: with a word about it if the client has to list again because it was too slow.
func (s *Stream) over(err error) {
	switch {
	case errors.Is(err, watchcache.ErrExpired):
		s.frames.fault(status.Of(apierrors.NewResourceExpired("the watch fell too far behind: too old resource version")))
	case errors.Is(err, context.Canceled), errors.Is(err, watchcache.ErrRefilled), errors.Is(err, watchcache.ErrGone), errors.Is(err, watchcache.ErrStopped):
	default:
		s.frames.fault(status.Of(err))
	}
}

// initialEventsEnd is the annotation on the bookmark behind the initial events.
const initialEventsEnd = metav1.InitialEventsAnnotationKey
