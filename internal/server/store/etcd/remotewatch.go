package etcd

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A batch takes the events that have already arrived, up to this number.
const remoteBatch = 5000

// watch delivers changes until ctx ends or the watch is lost. It opens a client of its own, so that a request for progress concerns this watch only. When a connection or a
// leader is lost, the client continues where it was.
func (r *remote) watch(ctx context.Context, w *watcher) error {
	from, err := r.start(ctx, w.after)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	watcher := clientv3.NewWatcher(r.client)
	defer watcher.Close()
	defer cancel()
	opts := []clientv3.OpOption{
		clientv3.WithRev(from + 1), clientv3.WithCreatedNotify(), clientv3.WithProgressNotify(), clientv3.WithFragment(),
		clientv3.WithRange(string(after(string(w.prefix)))),
	}
	key := string(w.prefix)
	if key == "" {
		key = "\x00"
	}
	responses := watcher.Watch(ctx, key, opts...)
	w.request = r.asker(ctx, watcher)
	created, reached := false, from
	for {
		b, err := nextBatch(ctx, responses)
		if err != nil {
			return err
		}
		if b.created && !created {
			created = true
			w.placed()
			b.rev = max(b.rev, from)
		}
		if b.rev == 0 {
			continue
		}
		if b.rev < reached {
			if err := r.checkNotBack(ctx, reached); err != nil {
				return err
			}
			continue
		}
		reached = b.rev
		if err := w.deliver(b.events, b.rev); err != nil {
			return err
		}
	}
}

// checkNotBack tells a member that lags, after the client has connected to it, from a cluster that was restored to a
// revision before reached.
func (r *remote) checkNotBack(ctx context.Context, reached int64) error {
	newest, err := r.revision(ctx)
	if err == nil && newest < reached {
		err = store.ErrFuture
	}
	return err
}

// start finds the revision where a watch begins, and checks that it exists: etcd would wait for a future revision
// without an error.
func (r *remote) start(ctx context.Context, after int64) (int64, error) {
	newest, err := r.revision(ctx)
	switch {
	case err != nil:
		return 0, err
	case after == 0:
		return newest, nil
	case after > newest:
		return 0, store.ErrFuture
	}
	return after, nil
}

// asker returns a function that requests progress without waiting until the request is sent, which can take long if
// there is no connection. Only one request is in flight at a time.
func (r *remote) asker(ctx context.Context, watcher clientv3.Watcher) func() {
	var asking atomic.Bool
	return func() {
		if !asking.CompareAndSwap(false, true) {
			return
		}
		r.inside.Go(func() {
			defer asking.Store(false)
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			// If this fails, progress is requested again later.
			_ = watcher.RequestProgress(ctx)
		})
	}
}

// received is one or more responses.
type received struct {
	events  []*clientv3.Event
	rev     int64
	created bool
}

// nextBatch waits for a response and adds those that have already arrived. On an error it discards what it has: the
// watch ends, and the next one begins after the last event that was delivered.
func nextBatch(ctx context.Context, responses clientv3.WatchChan) (received, error) {
	var b received
	select {
	case r, open := <-responses:
		if err := b.add(ctx, r, open); err != nil {
			return b, err
		}
	case <-ctx.Done():
		return b, ctx.Err()
	}
	for len(b.events) < remoteBatch {
		select {
		case r, open := <-responses:
			if err := b.add(ctx, r, open); err != nil {
				return b, err
			}
		default:
			return b, nil
		}
	}
	return b, nil
}

func (re *received) add(ctx context.Context, r clientv3.WatchResponse, open bool) error {
	if err := r.Err(); err != nil {
		return err
	}
	if !open {
		if err := ctx.Err(); err != nil {
			return err
		}
		return store.ErrUnavailable
	}
	re.created = re.created || r.Created
	switch n := len(r.Events); {
	case n > 0:
		re.events = append(re.events, r.Events...)
		re.rev = r.Events[n-1].Kv.ModRevision // the header's revision is ahead of it while the watch catches up
	case r.IsProgressNotify():
		re.rev = max(re.rev, r.Header.Revision)
	}
	return nil
}
