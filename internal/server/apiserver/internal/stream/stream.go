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

	"github.com/millrace/millrace/internal/server/apiserver/internal/answer"
	"github.com/millrace/millrace/internal/server/apiserver/internal/status"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// Stream is an open watch.
type Stream struct {
	Answer *answer.Answer
	Meter  meter
	// Ends ends when the server ends its streams. Sockets counts the open WebSockets.
	Ends    context.Context
	Sockets *sync.WaitGroup

	watcher   *registry.Watcher
	frames    *frames
	Bookmarks bool
	Mark      bool          // send a bookmark that marks the end of the initial events
	Period    time.Duration // time between bookmarks
	Timeout   time.Duration
	// Changed is closed when the watch may have other events than those of its feed; nil if there are none.
	Changed func() <-chan struct{}
	// Selected are the names of the fields in the watch's field selector.
	Selected []string
}

// meter counts what is sent.
type meter interface {
	// Sent counts an event of a watch. Initial counts the objects with which a watch begins.
	Sent(bytes int)
	Initial(events int)
}

// Prepare chooses the encoding of events. It fails for formats that cannot be streamed.
func (s *Stream) Prepare() (err error) {
	s.frames, err = newFrames(s.Answer, s.Meter)
	return err
}

// Refuse opens the stream, sends an ERROR event, and ends it.
func (s *Stream) Refuse(why *metav1.Status) {
	_, done, err := s.open()
	if err != nil {
		return // the error has been sent
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
		return // the error has been sent
	}
	defer done()
	s.run(ctx)
}

// open starts the response. The context ends with the request; call done when everything has been written. If open
// fails, the error has been sent.
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

// errChanged ends a stream because the kind's definition has changed, so that objects would look different from here
// on.
var errChanged = errors.New("the definition of the kind has changed")

// errLongEnough ends a stream that has reached its timeout.
var errLongEnough = errors.New("the watch has reached its timeout")

// run writes frames while there are events, flushes, and sleeps until there are more. It sleeps on few channels, and
// only the one that wakes all followers of the topic is shared: a select locks all of its channels at each wake-up, and
// each channel of a timer would be put into the scheduler's heap each time.
func (s *Stream) run(ctx context.Context) {
	defer s.frames.end()
	if !s.initial() {
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.Ends, func() { cancel(context.Cause(s.Ends)) })()
	changed := func() { cancel(errChanged) }
	defer s.Answer.Kind.Life.OnEnd(changed)()
	for _, name := range s.Selected {
		defer s.Answer.Kind.FieldLives[name].OnEnd(changed)()
	}
	defer time.AfterFunc(s.Timeout, func() { cancel(errLongEnough) }).Stop()
	var due chan struct{}
	var bell *time.Timer
	if s.Bookmarks {
		due = make(chan struct{}, 1)
		bell = time.AfterFunc(s.bookmarkPeriod(), func() { due <- struct{}{} })
		defer bell.Stop()
	}
	done, others := ctx.Done(), s.others()
	for s.drain() {
		select {
		case <-s.watcher.Wake():
		case <-others:
			others = s.others()
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

func (s *Stream) others() <-chan struct{} {
	if s.Changed == nil {
		return nil
	}
	return s.Changed()
}

func (s *Stream) bookmarkPeriod() time.Duration {
	return s.Period - time.Duration(rand.Int64N(int64(s.Period/4)+1))
}

// lastBookmark sends a bookmark before the stream reaches its timeout, so that the client can continue from there.
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

// initial writes the initial state, and the bookmark that marks its end if the client wants it.
func (s *Stream) initial() bool {
	s.Meter.Initial(len(s.watcher.Initial))
	for some := range slices.Chunk(s.watcher.Initial, conversionBatch) {
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

// eventsPerTurn is how many events are written before the stream checks its timeout and its context.
const eventsPerTurn = 1000

// drain writes the available events, up to eventsPerTurn, and flushes them. It reports whether the watch goes on.
func (s *Stream) drain() bool {
	if resource.IsForeign(s.Answer.Kind) {
		return s.drainForeign()
	}
	for range eventsPerTurn {
		e, ok, err := s.watcher.Next()
		switch {
		case err != nil:
			s.endWith(err)
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

// failed ends the stream because an event could not be written. It sends an ERROR event, unless the client has
// disconnected.
func (s *Stream) failed() bool {
	var known apierrors.APIStatus
	if errors.As(s.frames.err, &known) {
		s.frames.err = nil
		s.frames.fault(status.Of(known.(error)))
	}
	return false
}

// endWith ends the stream. If the client is too slow and has to list again, it sends an ERROR event that says so.
func (s *Stream) endWith(err error) {
	switch {
	case errors.Is(err, watchcache.ErrExpired):
		s.frames.fault(status.Of(apierrors.NewResourceExpired("the watch fell too far behind: too old resource version")))
	case errors.Is(err, watchcache.ErrReplaced):
		s.frames.fault(status.Of(apierrors.NewResourceExpired("the store was restored to an older state: the resource version is unknown")))
	case errors.Is(err, context.Canceled), errors.Is(err, watchcache.ErrRefilled), errors.Is(err, watchcache.ErrGone), errors.Is(err, watchcache.ErrStopped):
	default:
		s.frames.fault(status.Of(err))
	}
}

// initialEventsEnd is the annotation of the bookmark after the initial events.
const initialEventsEnd = metav1.InitialEventsAnnotationKey
