package informer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/watch"
)

// list fills the sink if there is no position from which a watch can continue. A streamed list continues as a watch,
// which is returned.
func (r *reflector[I]) list(ctx context.Context) (watch.Stream[I], error) {
	if r.position != "" {
		return nil, nil
	}
	if r.streams && !r.streaming.inEffect(time.Now()) {
		stream, err := r.streamList(ctx)
		if err == nil || ctx.Err() != nil || !r.cannotStream(err) {
			return stream, err
		}
		r.log.Info("the server does not stream lists, reading pages instead", "reason", err)
		r.streaming.refused(time.Now())
	}
	err := r.pageList(ctx, r.pageSize)
	if expired(err) {
		// The pages took longer than the server keeps old states. One answer with all objects cannot expire.
		err = r.pageList(ctx, 0)
	}
	return nil, err
}

// streamingRefused records that a server refused to stream a list, so pages are requested instead. The server may be
// upgraded, or another one may answer next time. So this is valid for a limited time: five minutes at first, an hour at
// most.
type streamingRefused struct {
	until time.Time
	last  time.Duration
}

func (s *streamingRefused) refused(inEffect time.Time) {
	s.last = min(max(2*s.last, 5*time.Minute), time.Hour)
	s.until = inEffect.Add(s.last)
}

func (s *streamingRefused) inEffect(inEffect time.Time) bool { return inEffect.Before(s.until) }

// cannotStream reports whether streaming failed in a way in which pages would not fail. A kube-apiserver whose etcd is too
// old answers that with an internal error.
func (r *reflector[I]) cannotStream(err error) bool {
	return refused(err) || apierrors.IsInternalError(err) || errors.Is(err, errNoProgress) || errors.Is(err, errListIncomplete)
}

// streamList reads the list as the initial events of a watch: the server sends one object at a time, and neither side
// has to hold the whole list.
func (r *reflector[I]) streamList(ctx context.Context) (watch.Stream[I], error) {
	began := time.Now()
	options := r.options()
	options.AllowWatchBookmarks = true
	options.SendInitialEvents = new(bool)
	*options.SendInitialEvents = true
	options.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	options.TimeoutSeconds = r.watchTimeout()
	stream, err := r.source.Watch(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("stream list: %w", err)
	}
	var late atomic.Bool
	timer := time.AfterFunc(r.streamTimeout, func() {
		late.Store(true)
		stream.Stop()
	})
	defer timer.Stop()
	incoming, items, added := r.sink.replace(), 0, true
	for {
		event, err := nextInitial(ctx, stream)
		if late.Load() {
			err = errNoProgress
		}
		if err != nil {
			stream.Stop()
			return nil, fmt.Errorf("stream list: %w", err)
		}
		// The rest of the list makes progress. What happens meanwhile does not: a server that ignores that a list was
		// asked for sends changes, and bookmarks, for ever.
		if added = added && event.Type == watch.Added; added {
			timer.Reset(r.streamTimeout)
		}
		if event.Type != watch.Bookmark {
			items++
			incoming.take(event)
			continue
		}
		if event.Object.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
			continue
		}
		r.position, r.listed, r.streaming = event.Object.GetResourceVersion(), true, streamingRefused{}
		incoming.commit(r.position)
		r.metrics.Listed(r.name, items, time.Since(began))
		return stream, nil
	}
}

// nextInitial returns the next event of a streamed list. Everything that can go wrong is returned as an error.
func nextInitial[I item](ctx context.Context, stream watch.Stream[I]) (watch.Event[I], error) {
	event, err := stream.Next(ctx)
	switch {
	case errors.Is(err, io.EOF):
		return event, errListIncomplete
	case err != nil:
		return event, err
	}
	return event, usable(event)
}

// pageList reads the list in pages and passes on each page before it requests the next. The first list accepts whatever
// state the server has cached, which costs the server least and often is one page; the watch that follows brings it up
// to date. Later lists request the newest state, because another server's cache may be older than what we have seen.
func (r *reflector[I]) pageList(ctx context.Context, pageSize int64) error {
	began := time.Now()
	options := r.options()
	options.Limit = pageSize
	if !r.listed {
		options.ResourceVersion = "0"
	}
	incoming, count := r.sink.replace(), 0
	for {
		items, list, err := r.source.List(ctx, options)
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		for i, it := range items {
			incoming.take(watch.Event[I]{Type: watch.Added, Object: it})
			var none I
			items[i] = none // allow the garbage collector to free it
		}
		count += len(items)
		options.ResourceVersion = "" // the continue token contains it
		if options.Continue = list.Continue; options.Continue == "" {
			r.position, r.listed = list.ResourceVersion, true
			incoming.commit(r.position)
			r.metrics.Listed(r.name, count, time.Since(began))
			return nil
		}
	}
}

// watchTimeout returns the time after which the server is to end a watch: at random, so that not all end at once.
func (r *reflector[I]) watchTimeout() *int64 {
	seconds := int64((r.watchFor + rand.N(r.watchFor)) / time.Second)
	return &seconds
}
