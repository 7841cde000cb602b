package informer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer/internal/state"
	"github.com/millrace/millrace/informer/internal/wire"
	"github.com/millrace/millrace/internal/sleep"
	"github.com/millrace/millrace/watch"
)

// item is an object as a reflector sees it: decoded, or encoded with only the metadata read.
type item interface {
	GetResourceVersion() string
	GetAnnotations() map[string]string
}

// sink receives what a reflector reads.
type sink[I item] interface {
	replace() listSink[I]
	apply(kind watch.EventType, it I)
	bookmark(resourceVersion string)
	// flush announces what was applied, because no further event has arrived yet.
	flush()
}

// listSink receives the items of one list, one at a time. A list that fails is dropped without a call of commit.
type listSink[I item] interface {
	// take applies one event of a streamed list, or one item of a page: Added, Modified or Deleted.
	take(watch.Event[I])
	commit(resourceVersion string)
}

// reflector makes a sink follow a source.
type reflector[I item] struct {
	source Source[I]
	sink   sink[I]
	settings
	failed func(error)

	position  string // the resource version at which the next watch starts
	streaming streamingRefused
	listed    bool // a list has been completed
	expiries  int  // consecutive watches that expired before their first event
	rejected  int  // consecutive watches from this position that were answered with an error
}

// settings are the options that do not depend on the type of the objects.
type settings struct {
	name          string
	log           *slog.Logger
	labels        string
	fields        string
	streams       bool
	pageSize      int64
	streamTimeout time.Duration
	watchFor      time.Duration
	backoff       Backoff
	metrics       Metrics
}

// ErrEmptyWatch means that the server ends watches as soon as they begin: it is stopping, or about to lose the kind.
var ErrEmptyWatch = errors.New("watch ended at once and without an event")

var (
	errNoProgress     = errors.New("the server streams no further part of the list")
	errListIncomplete = errors.New("the watch ended before the list was complete")
	errUnusable       = errors.New("event that cannot be used")
)

// run follows the source until the context ends.
func (r *reflector[I]) run(ctx context.Context) error {
	pace := backoffState{Backoff: r.backoff}
	for ctx.Err() == nil {
		err := r.listAndWatch(ctx)
		if ctx.Err() != nil || err == nil {
			continue
		}
		wait := pace.failed(time.Now())
		if apierrors.IsNotFound(err) {
			// The server does not have the kind. It may be created at any time, or never, so the longest delay is
			// enough.
			err = fmt.Errorf("the server has no such kind (yet): %w", err)
		}
		if after, ok := apierrors.SuggestsClientDelay(err); ok {
			wait = max(wait, time.Duration(after)*time.Second)
		}
		r.failed(fmt.Errorf("informer %s: %w", r.name, err))
		sleep.For(ctx, wait)
	}
	return nil
}

// listAndWatch continues from the position, or lists first if there is none, and watches. It returns nil if the watch
// ended without an error and can be continued at once.
func (r *reflector[I]) listAndWatch(ctx context.Context) error {
	stream, err := r.list(ctx)
	if err != nil {
		return err
	}
	if stream == nil {
		stream, err = r.watch(ctx)
	}
	if err == nil {
		err = r.consume(ctx, stream)
	}
	if expired(err) {
		r.log.Debug("watch has expired, listing again", "position", r.position, "error", err)
		r.position = ""
		if r.expiries++; r.expiries > 1 {
			return err // lists that expire before their first watch must not repeat without a delay
		}
		return nil
	}
	if r.mustRelist(err) {
		r.position, r.rejected = "", 0
	}
	return err
}

// mustRelist reports whether to drop the position. If a server cannot be reached or is overloaded, the watch is
// repeated from the same position: nothing has been missed while the server has that history, and a list would cost it
// more. A server that answers with other errors may do so for ever, for example because it was restored from a backup
// and does not know the position. So after three such errors the objects are listed again.
func (r *reflector[I]) mustRelist(err error) bool {
	switch {
	case err == nil:
		r.rejected, r.expiries = 0, 0
		return false
	case apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge), apierrors.IsNotFound(err):
		return true
	case apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return false
	case statusCode(err) != 0, errors.Is(err, wire.ErrMalformed), errors.Is(err, errUnusable):
		r.rejected++
	}
	return r.rejected >= 3
}

func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

func (r *reflector[I]) options() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: r.labels, FieldSelector: r.fields}
}

// watch continues from the position.
func (r *reflector[I]) watch(ctx context.Context) (watch.Stream[I], error) {
	options := r.options()
	options.ResourceVersion = r.position
	options.AllowWatchBookmarks = true
	options.TimeoutSeconds = r.watchTimeout()
	stream, err := r.source.Watch(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("watch from %s: %w", r.position, err)
	}
	return stream, nil
}

// consume passes on the events of a watch.
func (r *reflector[I]) consume(ctx context.Context, stream watch.Stream[I]) error {
	defer stream.Stop()
	defer r.sink.flush()
	began, events := time.Now(), 0
	defer func() { r.metrics.Watched(r.name, events, time.Since(began)) }()
	for {
		event, err := stream.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			if events == 0 && time.Since(began) < time.Second {
				return fmt.Errorf("watch from %s: %w", r.position, ErrEmptyWatch)
			}
			return nil
		case err != nil:
			return fmt.Errorf("watch from %s: %w", r.position, err)
		}
		events++
		if err := r.handle(event); err != nil {
			return fmt.Errorf("watch from %s: %w", r.position, err)
		}
		if events%maxBatch == 0 || !ready(stream) {
			r.sink.flush()
		}
	}
}

// maxBatch is how many events may be applied before handlers and WaitFor are woken.
const maxBatch = 64

// ready reports whether the next event has arrived already. Waking fifty handlers once for a batch of events costs a
// fraction of waking them for each event.
func ready[I any](stream watch.Stream[I]) bool {
	full, ok := stream.(interface{ Ready() bool })
	return ok && full.Ready()
}

// handle passes on one event.
func (r *reflector[I]) handle(event watch.Event[I]) error {
	if err := usable(event); err != nil {
		return err
	}
	if event.Type == watch.Bookmark {
		r.sink.bookmark(event.Object.GetResourceVersion())
	} else {
		r.sink.apply(event.Type, event.Object)
	}
	r.rejected, r.expiries = 0, 0
	if reached := event.Object.GetResourceVersion(); state.ParseRevision(reached) >= state.ParseRevision(r.position) {
		r.position = reached // unless a faulty connection repeats an event
	}
	return nil
}

// usable returns an error if an event cannot be used.
func usable[I any](event watch.Event[I]) error {
	switch event.Type {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		return nil
	case watch.Error:
		if statusCode(event.Err) != 0 {
			return event.Err
		}
		return fmt.Errorf("%w: %w", errUnusable, event.Err)
	}
	return fmt.Errorf("%w: its type is %q", errUnusable, event.Type)
}

// refused reports whether the error says that the server does not support streamed lists.
func refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err) ||
		apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && statusCode(err) == http.StatusBadRequest
}

func statusCode(err error) int32 {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code
	}
	return 0
}
