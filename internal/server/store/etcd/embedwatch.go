package etcd

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/millrace/millrace/internal/server/store"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// watch reads etcd's own watch stream. A separate goroutine, the pump, empties the stream while sink runs: etcd's
// channel holds 128 changes, and a watch that lets it overflow pauses for 100 ms.
func (e *embedded) watch(ctx context.Context, w *watcher) error {
	in := newInbox()
	m := e.member()
	stream, id, from, err := m.openStream(ctx, w)
	if err != nil {
		return err
	}
	pumped := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(pumped)
		in.end(e.pump(ctx, m, stream, in))
		m.closeStream(stream)
	}()
	defer func() {
		cancel()
		<-pumped
	}()
	w.request = func() { m.requestProgress(stream, id) }
	w.placed()
	if err := w.deliver(nil, from); err != nil {
		return err
	}
	for {
		events, rev, err := in.take()
		if err != nil {
			return err
		}
		if len(events) > 0 {
			if err := m.awaitReadable(ctx, rev); err != nil {
				return err
			}
		}
		if err := w.deliver(events, rev); err != nil {
			return err
		}
	}
}

// awaitReadable waits until reads show a revision. etcd announces a write to its watchers just before the write's
// transaction ends, and reads of this process do not go through raft, so for some microseconds a read can be older than
// an event.
func (m *member) awaitReadable(ctx context.Context, rev int64) error {
	_, err := askMember(ctx, m, func(m *member) (struct{}, error) {
		for m.readable() < rev {
			if err := errors.Join(m.alive(), ctx.Err()); err != nil {
				return struct{}{}, err
			}
			runtime.Gosched()
		}
		return struct{}{}, nil
	})
	return err
}

// readable returns the newest revision that reads show.
func (m *member) readable() int64 {
	tx := m.kv.Read(mvcc.SharedBufReadTxMode, traceutil.TODO())
	defer tx.End()
	return tx.Rev()
}

// openStream starts a watch. It enters the member; the caller must call closeStream, which leaves it.
func (m *member) openStream(ctx context.Context, w *watcher) (stream mvcc.WatchStream, id mvcc.WatchID, from int64, err error) {
	if err := m.enter(); err != nil {
		return nil, 0, 0, err
	}
	type opened struct {
		stream mvcc.WatchStream
		id     mvcc.WatchID
		from   int64
		err    error
	}
	done := make(chan opened, 1)
	go func() {
		var o opened
		o.stream, o.id, o.from, o.err = m.beginStream(w)
		done <- o
		if o.err != nil {
			m.leave()
		}
	}()
	select {
	case o := <-done:
		return o.stream, o.id, o.from, o.err
	case <-m.broken:
		return nil, 0, 0, m.cause
	}
}

func (m *member) beginStream(w *watcher) (stream mvcc.WatchStream, id mvcc.WatchID, from int64, err error) {
	from = w.after
	switch newest := m.kv.Rev(); {
	case from == 0:
		from = newest
	case from > newest:
		return nil, 0, 0, store.ErrFuture
	case from+1 < m.kv.FirstRev():
		return nil, 0, 0, store.ErrCompacted
	}
	key, end := w.prefix, rangeEnd(after(string(w.prefix)))
	if len(key) == 0 {
		key = []byte{0}
	}
	stream = m.kv.NewWatchStream()
	id, err = stream.Watch(context.Background(), clientv3.AutoWatchID, key, end, from+1)
	if err != nil {
		stream.Close()
		return nil, 0, 0, err
	}
	return stream, id, from, nil
}

// closeStream closes the stream and leaves the member. It does not wait if the member has failed.
func (m *member) closeStream(stream mvcc.WatchStream) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer m.leave()
		stream.Close()
	}()
	select {
	case <-done:
	case <-m.broken:
	}
}

// requestProgress returns at once. It may run after the stream was closed, which etcd tolerates, but not after etcd was
// closed, which etcd does not tolerate.
func (m *member) requestProgress(stream mvcc.WatchStream, id mvcc.WatchID) {
	if m.enter() != nil {
		return
	}
	go func() {
		defer m.leave()
		stream.RequestProgress(id)
	}()
}

func (e *embedded) pump(ctx context.Context, m *member, stream mvcc.WatchStream, in *inbox) error {
	for {
		select {
		case r := <-stream.Chan():
			if r.CompactRevision != 0 {
				return store.ErrCompacted
			}
			rev := r.Revision
			if n := len(r.Events); n > 0 {
				rev = r.Events[n-1].Kv.ModRevision // r.Revision is ahead of this while the watch catches up
			}
			if err := in.put(ctx, e.closing, m.broken, r.Events, rev); err != nil {
				return err
			}
		case <-e.closing:
			return store.ErrClosed
		case <-m.broken:
			return m.cause
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// inbox holds what the pump has read and sink has not yet taken. It is bounded: when it is full the pump waits, and
// etcd keeps the rest in its database.
type inbox struct {
	mu     sync.Mutex
	events []*mvccpb.Event
	bytes  int
	rev    int64
	err    error
	filled chan struct{} // holds a token when there is something to take
	taken  chan struct{} // holds a token when there may be room
}

const (
	inboxEvents = 10_000
	inboxBytes  = 16 << 20
)

func newInbox() *inbox {
	return &inbox{filled: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
}

func (in *inbox) put(ctx context.Context, closing, broken <-chan struct{}, events []*mvccpb.Event, rev int64) error {
	in.mu.Lock()
	in.events = append(in.events, events...)
	for _, e := range events {
		in.bytes += len(e.Kv.Key) + len(e.Kv.Value)
	}
	in.rev = max(in.rev, rev)
	in.mu.Unlock()
	signal(in.filled)
	for in.isFull() {
		select {
		case <-in.taken:
		case <-closing:
			return store.ErrClosed
		case <-broken:
			return errBroken
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (in *inbox) isFull() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.events) >= inboxEvents || in.bytes >= inboxBytes
}

// end says that no more events will come.
func (in *inbox) end(err error) {
	in.mu.Lock()
	in.err = err
	in.mu.Unlock()
	signal(in.filled)
}

// take waits until there is something and takes everything. Events that came before the end are returned first, unless
// the caller itself ended the watch.
func (in *inbox) take() ([]*mvccpb.Event, int64, error) {
	for {
		in.mu.Lock()
		events, rev, err := in.events, in.rev, in.err
		in.events, in.bytes, in.rev = nil, 0, 0
		in.mu.Unlock()
		signal(in.taken)
		if rev != 0 {
			if err != nil {
				signal(in.filled)
			}
			return events, rev, nil
		}
		if err != nil {
			return nil, 0, err
		}
		<-in.filled
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
