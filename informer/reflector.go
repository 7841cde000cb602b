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
	"github.com/millrace/millrace/watch"
)

// item is what a reflector has to know of an object: a decoded one, or one of which only the metadata was read.
type item interface {
	GetResourceVersion() string
	GetAnnotations() map[string]string
}

// sink is where a reflector puts what it reads.
type sink[I item] interface {
	replace() intake[I]
	apply(kind watch.EventType, it I)
	bookmark(resourceVersion string)
	// flush says that what was applied should be announced: nothing more is there right now.
	flush()
}

// intake receives the items of one list, one at a time. If the list fails half-way it is simply dropped.
type intake[I item] interface {
	// take applies one of the events that a list is streamed as: Added, Modified or Deleted.
	take(watch.Event[I])
	commit(resourceVersion string)
}

// reflector makes a sink follow a source.
type reflector[I item] struct {
	source Source[I]
	sink   sink[I]
	settings
	failed func(error)

	position string // where the next watch starts
	pages    pagesOnly
	listed   bool // there was a complete list
	expiries int  // how often in a row a watch has expired before it brought anything
	rejected int  // how often in a row a watch from the position was answered with an error
}

// settings are those options that do not depend on the type of the objects.
type settings struct {
	name          string
	log           *slog.Logger
	labels        string
	fields        string
	streams       bool
	pageSize      int64
	streamTimeout time.Duration
	backoff       Backoff
	metrics       Metrics
}

var (
	errNoProgress  = errors.New("the server streams no further part of the list")
	errEndsTooSoon = errors.New("the watch ended before the list was complete")
	errBreaksOff   = errors.New("watch ended at once and without an event")
	errUnusable    = errors.New("event that cannot be used")
)

// run follows the source until the context ends.
func (r *reflector[I]) run(ctx context.Context) error {
	pace := pacer{Backoff: r.backoff}
	for ctx.Err() == nil {
		err := r.listAndWatch(ctx)
		if ctx.Err() != nil || err == nil {
			continue
		}
		wait := pace.failed(time.Now())
		if apierrors.IsNotFound(err) {
			// The kind is not there: it may be created any time, or never. Asking at the slowest pace is enough.
			err = fmt.Errorf("the server has no such kind (yet): %w", err)
		}
		if after, ok := apierrors.SuggestsClientDelay(err); ok {
			wait = max(wait, time.Duration(after)*time.Second)
		}
		r.failed(fmt.Errorf("informer %s: %w", r.name, err))
		pause(ctx, wait)
	}
	return nil
}

func pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// listAndWatch lists unless it knows where it was, and watches from there. It returns nil if the watch ended in good
// order and can be taken up again at once.
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
			return err // lists that expire before they are of use must not follow each other without a pause
		}
		return nil
	}
	if r.mustRelist(err) {
		r.position, r.rejected = "", 0
	}
	return err
}

// mustRelist reports whether to give up the position. A server that cannot be reached, or has too much to do, is asked
// again from where we were: nothing has been missed as long as it remembers, and listing would cost it more. One that
// answers with other errors may do so for ever, say since it was restored from a backup and has never heard of the
// position: after three times a list is worth its cost.
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
	options.TimeoutSeconds = watchTimeout()
	stream, err := r.source.Watch(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("watch from %s: %w", r.position, err)
	}
	return stream, nil
}

// consume hands on the events of a watch.
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
				return fmt.Errorf("watch from %s: %w", r.position, errBreaksOff)
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

// maxBatch is how many events may be applied before those who wait for them are told.
const maxBatch = 64

// ready reports whether the next event is here already. Waking fifty handlers once for a batch of events costs a
// fraction of waking them for each.
func ready[I any](stream watch.Stream[I]) bool {
	full, ok := stream.(interface{ Ready() bool })
	return ok && full.Ready()
}

// handle hands on one event.
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
		r.position = reached // unless a faulty connection repeats itself
	}
	return nil
}

// usable returns what is wrong with an event.
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

// refused reports whether a server does not know how to stream a list.
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
