package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// remote is an etcd cluster. It takes etcd's requests and returns etcd's errors.
type remote struct {
	client  *clientv3.Client
	kv      pb.KVClient
	calls   []grpc.CallOption
	timeout time.Duration
	full    atomic.Bool // the last write failed for lack of space

	// revisions lets callers that ask for the revision at the same time share one request.
	revisions sharedReads
	// inside counts the goroutines that close waits for.
	inside sync.WaitGroup
}

func newRemote(client *clientv3.Client, o Options) *remote {
	return &remote{
		client:  client,
		kv:      clientv3.RetryKVClient(client),
		timeout: o.RequestTimeout,
		calls: []grpc.CallOption{
			grpc.MaxCallRecvMsgSize(math.MaxInt32),
			grpc.MaxCallSendMsgSize(o.MaxRequestBytes),
		},
	}
}

// within bounds a request, so that a cluster that does not answer is noticed even by callers without a deadline.
func (r *remote) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	return r.untilClosed(ctx, cancel)
}

// untilClosed ends a request when the store is closed. By itself the client would go on trying for seconds.
func (r *remote) untilClosed(ctx context.Context, cancel context.CancelFunc) (context.Context, context.CancelFunc) {
	stop := context.AfterFunc(r.client.Ctx(), cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

func (r *remote) txn(ctx context.Context, txn *pb.TxnRequest) (*pb.TxnResponse, error) {
	ctx, cancel := r.within(ctx)
	defer cancel()
	resp, err := r.kv.Txn(ctx, txn, r.calls...)
	switch {
	case err == nil && resp.Succeeded && txn.Success[0].GetRequestPut() != nil:
		r.full.Store(false)
	case errors.Is(meaning(err), store.ErrNoSpace):
		r.full.Store(true)
	}
	return resp, err
}

func (r *remote) writable() error {
	if r.full.Load() {
		return fmt.Errorf("etcd has raised its alarm: %w", store.ErrNoSpace)
	}
	return nil
}

// get returns nil for a key that does not exist.
func (r *remote) get(ctx context.Context, key string, stale bool) (*mvccpb.KeyValue, error) {
	ctx, cancel := r.within(ctx)
	defer cancel()
	resp, err := r.kv.Range(ctx, &pb.RangeRequest{Key: []byte(key), Serializable: stale}, r.calls...)
	if err != nil || len(resp.Kvs) == 0 {
		return nil, err
	}
	return resp.Kvs[0], nil
}

func (r *remote) list(ctx context.Context, q query) (answer, error) {
	// A list may take long, so only the caller's context bounds it.
	ctx, cancel := r.untilClosed(context.WithCancel(ctx))
	defer cancel()
	resp, err := r.kv.Range(ctx, &pb.RangeRequest{
		Key: q.start, RangeEnd: q.end, Limit: q.limit, Revision: q.rev, Serializable: q.stale,
	}, r.calls...)
	if err != nil {
		return answer{}, err
	}
	return answer{kvs: resp.Kvs, count: resp.Count, rev: resp.Header.Revision}, nil
}

func (r *remote) revision(ctx context.Context) (int64, error) {
	return r.revisions.ask(ctx, &r.inside, func() (int64, error) {
		ctx, cancel := r.within(r.client.Ctx())
		defer cancel()
		resp, err := r.kv.Range(ctx, &pb.RangeRequest{Key: []byte{0}, CountOnly: true}, r.calls...)
		if err != nil {
			return 0, err
		}
		return resp.Header.Revision, nil
	})
}

func (r *remote) compact(ctx context.Context, rev int64) error {
	ctx, cancel := r.within(ctx)
	defer cancel()
	_, err := r.kv.Compact(ctx, &pb.CompactionRequest{Revision: rev}, r.calls...)
	return err
}

// size asks the members until one answers: their sizes differ little.
func (r *remote) size(ctx context.Context) (int64, error) {
	ctx, cancel := r.within(ctx)
	defer cancel()
	var failed error
	for _, endpoint := range r.client.Endpoints() {
		status, err := r.client.Status(ctx, endpoint)
		if err == nil {
			return status.DbSize, nil
		}
		failed = errors.Join(failed, err)
	}
	return 0, failed
}

func (r *remote) grant(ctx context.Context, seconds int64) (int64, error) {
	ctx, cancel := r.within(ctx)
	defer cancel()
	lease, err := r.client.Grant(ctx, seconds)
	if err != nil {
		return 0, err
	}
	return int64(lease.ID), nil
}

func (r *remote) close() error {
	err := r.client.Close()
	r.inside.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil // the client returns the error of its own context, which was ended on purpose
	}
	if err != nil {
		return fmt.Errorf("close the connection to etcd: %w", err)
	}
	return nil
}

// sharedReads answers concurrent callers with few requests. A caller must not get the answer to a request that was sent
// before the call, because that answer may lack writes that were acknowledged in between. It joins the next request.
type sharedReads struct {
	mu      sync.Mutex
	running bool        // guarded by mu
	next    *sharedRead // guarded by mu; nil if no caller waits
}

type sharedRead struct {
	done chan struct{}
	rev  int64
	err  error
}

func (s *sharedReads) ask(ctx context.Context, owner *sync.WaitGroup, question func() (int64, error)) (int64, error) {
	s.mu.Lock()
	if s.next == nil {
		s.next = &sharedRead{done: make(chan struct{})}
	}
	mine := s.next
	if !s.running {
		s.running = true
		owner.Go(func() { s.run(question) })
	}
	s.mu.Unlock()
	select {
	case <-mine.done:
		return mine.rev, mine.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// run sends requests as long as callers wait.
func (s *sharedReads) run(question func() (int64, error)) {
	for {
		s.mu.Lock()
		now := s.next
		s.next = nil
		s.running = now != nil
		s.mu.Unlock()
		if now == nil {
			return
		}
		now.rev, now.err = question()
		close(now.done)
	}
}
