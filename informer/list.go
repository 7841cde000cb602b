package informer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/watch"
)

// list fills the sink if there is no position to go on from. A list that was streamed goes on as a watch, which it
// returns.
func (r *reflector[I]) list(ctx context.Context) (watch.Stream[I], error) {
	if r.position != "" {
		return nil, nil
	}
	if r.streams && !r.pages.now(time.Now()) {
		stream, err := r.streamList(ctx)
		if err == nil || ctx.Err() != nil || !r.unable(err) {
			return stream, err
		}
		r.log.Info("the server does not stream lists, reading pages instead", "reason", err)
		r.pages.refused(time.Now())
	}
	err := r.pageList(ctx, r.pageSize)
	if expired(err) {
		// The pages took longer than the server keeps old states. One answer with everything cannot expire.
		err = r.pageList(ctx, 0)
	}
	return nil, err
}

// pagesOnly says whether a server has to be asked for pages because it would not stream. It may be upgraded, or another
// may answer the next time, so that does not hold for ever: for five minutes at first, and up to an hour.
type pagesOnly struct {
	until time.Time
	last  time.Duration
}

func (p *pagesOnly) refused(now time.Time) {
	p.last = min(max(2*p.last, 5*time.Minute), time.Hour)
	p.until = now.Add(p.last)
}

func (p *pagesOnly) now(now time.Time) bool { return now.Before(p.until) }

// unable reports whether an attempt to stream failed in a way that pages would not.
func (r *reflector[I]) unable(err error) bool {
	return refused(err) || errors.Is(err, errNoProgress) || errors.Is(err, errEndsTooSoon)
}

// streamList reads the list as the initial events of a watch: the server sends one object at a time and neither side
// has to hold the whole.
func (r *reflector[I]) streamList(ctx context.Context) (watch.Stream[I], error) {
	began := time.Now()
	options := r.options()
	options.AllowWatchBookmarks = true
	options.SendInitialEvents = new(bool)
	*options.SendInitialEvents = true
	options.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	options.TimeoutSeconds = watchTimeout()
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
	incoming, items := r.sink.replace(), 0
	for {
		event, err := nextInitial(ctx, stream)
		if late.Load() {
			err = errNoProgress
		}
		if err != nil {
			stream.Stop()
			return nil, fmt.Errorf("stream list: %w", err)
		}
		timer.Reset(r.streamTimeout)
		if event.Type != watch.Bookmark {
			items++
			incoming.take(event)
			continue
		}
		if event.Object.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
			continue
		}
		r.position, r.listed, r.pages = event.Object.GetResourceVersion(), true, pagesOnly{}
		incoming.commit(r.position)
		r.metrics.Listed(r.name, items, time.Since(began))
		return stream, nil
	}
}

// nextInitial returns the next event of a streamed list, with all that can go wrong as errors.
func nextInitial[I item](ctx context.Context, stream watch.Stream[I]) (watch.Event[I], error) {
	event, err := stream.Next(ctx)
	switch {
	case errors.Is(err, io.EOF):
		return event, errEndsTooSoon
	case err != nil:
		return event, err
	}
	return event, usable(event)
}

// pageList reads the list in pages and hands on each before it asks for the next. The first list takes what the server
// has at hand, which costs it least and often comes as one page; the watch that follows brings it up to date. Later
// ones ask for the newest state, since what another server has at hand may be older than what we have seen.
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
			items[i] = none // let go of what was taken in
		}
		count += len(items)
		options.ResourceVersion = "" // a token for the next page has its own
		if options.Continue = list.Continue; options.Continue == "" {
			r.position, r.listed = list.ResourceVersion, true
			incoming.commit(r.position)
			r.metrics.Listed(r.name, count, time.Since(began))
			return nil
		}
	}
}

// watchTimeout asks the server to end a watch after 5 to 10 minutes, so that connections spread anew over servers.
func watchTimeout() *int64 {
	seconds := int64(300 + rand.IntN(300))
	return &seconds
}
