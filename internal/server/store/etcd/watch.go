package etcd

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/millrace/millrace/internal/server/store"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// watcher is one watch, as the cluster sees it.
type watcher struct {
	prefix []byte
	after  int64 // zero means from now
	root   int   // length of the store's root
	sink   func(store.Batch) error
	sunk   error // the error that sink returned

	// request asks etcd to report how far the watch is, without waiting for the answer. The cluster sets it and then
	// calls placed.
	request func()
	placed  func()
	// reached is the newest revision that was passed to sink.
	reached atomic.Int64
}

// Watch implements store.Store.
func (s *Store) Watch(ctx context.Context, prefix string, after store.Revision, sink func(store.Batch) error) error {
	if err := s.checkUsable(ctx); err != nil {
		return fmt.Errorf("watch %s after %d: %w", prefix, after, err)
	}
	return s.watch(ctx, &watcher{prefix: []byte(s.root + prefix), after: int64(after), root: len(s.root), sink: sink})
}

func (s *Store) watch(ctx context.Context, w *watcher) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.progress.remove(w)
	w.placed = func() { s.progress.add(w) }
	w.reached.Store(w.after)
	err := s.cluster.watch(inner, w)
	if w.sunk != nil {
		return w.sunk
	}
	return fmt.Errorf("watch %s after %d: %w", w.prefix[w.root:], w.reached.Load(), s.explain(ctx, err))
}

// deliver passes on a batch, even an empty one.
func (w *watcher) deliver(events []*mvccpb.Event, rev int64) error {
	b := store.Batch{Revision: store.Revision(rev)}
	if len(events) > 0 {
		b.Events = make([]store.Event, len(events))
		for i, e := range events {
			b.Events[i] = w.event(e)
		}
	}
	if err := w.sink(b); err != nil {
		w.sunk = err
		return err
	}
	w.reached.Store(rev)
	return nil
}

func (w *watcher) event(e *mvccpb.Event) store.Event {
	out := store.Event{Key: string(e.Kv.Key[w.root:]), Revision: store.Revision(e.Kv.ModRevision)}
	if e.Type == mvccpb.Event_DELETE {
		out.Type = store.Delete
	} else {
		out.Value = e.Kv.Value
	}
	return out
}
