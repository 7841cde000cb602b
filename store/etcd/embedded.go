package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/millrace/millrace/store"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// embedded is an etcd in this process.
type embedded struct {
	dir    string
	log    *slog.Logger
	lock   *os.File
	server *etcdserver.EtcdServer
	kv     mvcc.WatchableKV

	quota, reserve int64
	diskFull       atomic.Bool
	full           chan struct{} // somebody was told that there is no space

	// gate is held by those who are inside kv, which must not be closed under their feet.
	gate    sync.RWMutex
	shut    bool // guarded by gate
	closing chan struct{}
	// inside counts the pumps of watches.
	inside sync.WaitGroup

	// quiet drops what etcd has to say while it is being stopped.
	quiet atomic.Bool

	// broken is closed when etcd has given up; cause says why.
	breaking sync.Once
	broken   chan struct{}
	cause    error
}

// fail notes that etcd has given up. The one goroutine of it that ends leaves the others hanging, so nothing more can
// come of it but what the tree in memory still holds.
func (e *embedded) fail(err error) {
	e.breaking.Do(func() {
		e.cause = fmt.Errorf("%w: %w", errBroken, err)
		if errors.Is(err, syscall.ENOSPC) {
			e.cause = fmt.Errorf("etcd has stopped: %w: %w", store.ErrNoSpace, err)
		}
		e.log.Error("etcd has stopped and must be started again", "err", err)
		close(e.broken)
	})
}

func (e *embedded) txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := e.roomFor(r); err != nil {
		return nil, err
	}
	select {
	case <-e.broken:
		return nil, e.cause
	default:
	}
	resp, err := e.server.Txn(ctx, r)
	if err != nil {
		return nil, e.noteFull(err)
	}
	return resp, nil
}

// get reads without a copy of what is not yet in the database file, which is fine for one key: it holds writers up for
// a microsecond.
func (e *embedded) get(ctx context.Context, key string, _ bool) (*mvccpb.KeyValue, error) {
	if err := e.enter(); err != nil {
		return nil, err
	}
	defer e.gate.RUnlock()
	tx := e.kv.Read(mvcc.SharedBufReadTxMode, traceutil.TODO())
	defer tx.End()
	r, err := tx.Range(ctx, []byte(key), nil, mvcc.RangeOptions{})
	if err != nil || len(r.KVs) == 0 {
		return nil, err
	}
	return r.KVs[0], nil
}

func (e *embedded) list(ctx context.Context, q query) (answer, error) {
	if err := e.enter(); err != nil {
		return answer{}, err
	}
	defer e.gate.RUnlock()
	r, err := e.kv.Range(ctx, q.start, rangeEnd(q.end), mvcc.RangeOptions{Limit: q.limit, Rev: q.rev, WithTotalCount: true})
	if err != nil {
		return answer{}, err
	}
	return answer{kvs: r.KVs, count: int64(r.Count), rev: r.Rev}, nil
}

// rangeEnd puts the end of a range as mvcc wants it: empty for none, where requests have a zero byte.
func rangeEnd(end []byte) []byte {
	if len(end) == 1 && end[0] == 0 {
		return []byte{}
	}
	return end
}

func (e *embedded) revision(context.Context) (int64, error) {
	if err := e.enter(); err != nil {
		return 0, err
	}
	defer e.gate.RUnlock()
	return e.kv.Rev(), nil
}

// newest is the revision, for those who can do without an error.
func (e *embedded) newest() int64 {
	rev, _ := e.revision(context.Background())
	return rev
}

func (e *embedded) compact(ctx context.Context, rev int64) error {
	_, err := e.server.Compact(ctx, &pb.CompactionRequest{Revision: rev})
	return err
}

func (e *embedded) size(context.Context) (int64, error) {
	if err := e.enter(); err != nil {
		return 0, err
	}
	defer e.gate.RUnlock()
	return e.server.Backend().Size(), nil
}

func (e *embedded) grant(ctx context.Context, seconds int64) (int64, error) {
	if err := e.roomFor(nil); err != nil {
		return 0, err
	}
	r, err := e.server.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: seconds})
	if err != nil {
		return 0, e.noteFull(err)
	}
	return r.ID, nil
}

// enter holds the gate open; the caller closes it with gate.RUnlock.
func (e *embedded) enter() error {
	select {
	case <-e.broken:
		return e.cause
	default:
	}
	e.gate.RLock()
	if e.shut {
		e.gate.RUnlock()
		return store.ErrClosed
	}
	return nil
}

func (e *embedded) close() error {
	close(e.closing)
	e.gate.Lock()
	e.shut = true
	e.gate.Unlock()
	e.inside.Wait()
	return errors.Join(e.stop(), e.lock.Close())
}

// stop ends etcd. One that has given up may never end; it is left behind.
func (e *embedded) stop() error {
	e.quiet.Store(true)
	done := make(chan struct{})
	go func() {
		e.server.HardStop()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-e.broken:
	}
	select {
	case <-done:
		return nil
	case <-time.After(time.Second):
		return e.cause
	}
}
