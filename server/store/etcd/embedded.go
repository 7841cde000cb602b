package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/server/store"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// embedded is an etcd in this process. It outlives its members: when one gives up, another is started on what it left.
type embedded struct {
	options EmbedOptions
	lock    *os.File

	diskFull atomic.Bool
	alarmed  atomic.Bool   // etcd's quota is used up
	full     chan struct{} // somebody was told that there is no space
	closing  chan struct{}

	lookedAt    atomic.Int64  // bytes of values that were read since pages were let go last
	uncommitted atomic.Int64  // bytes, at most: etcd may have committed some by itself
	commits     chan struct{} // there are too many

	mu      sync.Mutex // guards present, and the closing of closing
	present *member
}

func (e *embedded) member() *member {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.present
}

// replace puts a member in the place of one that has given up, unless it comes too late.
func (e *embedded) replace(m *member) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.open() {
		return false
	}
	e.present = m
	return true
}

// ask calls a function on the member. It returns when the member gives up, since the function may never return then.
func ask[T any](ctx context.Context, e *embedded, question func(*member) (T, error)) (T, error) {
	var none T
	m := e.member()
	if err := m.enter(); err != nil {
		return none, err
	}
	type reply struct {
		answer T
		err    error
	}
	replies := make(chan reply, 1)
	go func() {
		defer m.leave()
		answer, err := question(m)
		replies <- reply{answer, err}
	}()
	select {
	case r := <-replies:
		return r.answer, r.err
	case <-m.broken:
		return none, m.cause
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// txn waits for nothing but the member's answer, which ends with the member.
func (e *embedded) txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := e.roomFor(r); err != nil {
		return nil, err
	}
	m := e.member()
	if err := m.enter(); err != nil {
		return nil, err
	}
	defer m.leave()
	ctx, cancel := m.bound(ctx)
	defer cancel()
	resp, err := m.server.Txn(ctx, r)
	if err != nil {
		return nil, e.noteFull(m, err)
	}
	e.wrote(r)
	return resp, nil
}

// get reads without a copy of what is not yet in the database file, which is fine for one key: it holds writers up for
// a microsecond.
func (e *embedded) get(ctx context.Context, key string, _ bool) (*mvccpb.KeyValue, error) {
	return ask(ctx, e, func(m *member) (*mvccpb.KeyValue, error) {
		tx := m.kv.Read(mvcc.SharedBufReadTxMode, traceutil.TODO())
		defer tx.End()
		r, err := tx.Range(ctx, []byte(key), nil, mvcc.RangeOptions{})
		if err != nil || len(r.KVs) == 0 {
			return nil, err
		}
		return r.KVs[0], nil
	})
}

func (e *embedded) list(ctx context.Context, q query) (answer, error) {
	return ask(ctx, e, func(m *member) (answer, error) {
		o := mvcc.RangeOptions{Limit: q.limit, Rev: q.rev, WithTotalCount: !q.uncounted}
		if q.uncounted {
			o.Limit++ // the last one tells that there is more
		}
		r, err := m.kv.Range(ctx, q.start, rangeEnd(q.end), o)
		if err != nil {
			return answer{}, err
		}
		e.looked(m, r.KVs)
		a := answer{kvs: r.KVs, count: int64(r.Count), rev: r.Rev}
		if q.uncounted {
			a.count = int64(len(r.KVs))
			a.kvs = r.KVs[:min(a.count, q.limit)]
		}
		return a, nil
	})
}

// mostLooked is how much of the database may be read before its pages are let go: when all of it is read they would take as much memory as what
// is made of them. With each page that is looked at the system maps those around it.
const mostLooked = 8 << 20

// looked notes that values were read.
func (e *embedded) looked(m *member, kvs []*mvccpb.KeyValue) {
	var n int64
	for _, kv := range kvs {
		n += int64(len(kv.Value))
	}
	if e.lookedAt.Add(n) < mostLooked {
		return
	}
	e.lookedAt.Store(0)
	m.dropPages()
}

// rangeEnd puts the end of a range as mvcc wants it: empty for none, where requests have a zero byte.
func rangeEnd(end []byte) []byte {
	if len(end) == 1 && end[0] == 0 {
		return []byte{}
	}
	return end
}

func (e *embedded) revision(ctx context.Context) (int64, error) {
	return ask(ctx, e, func(m *member) (int64, error) { return m.kv.Rev(), nil })
}

// newest is the revision, for those who can do without an error.
func (e *embedded) newest() int64 {
	rev, _ := e.revision(context.Background())
	return rev
}

func (e *embedded) compact(ctx context.Context, rev int64) error {
	_, err := ask(ctx, e, func(m *member) (*pb.CompactionResponse, error) {
		return m.server.Compact(ctx, &pb.CompactionRequest{Revision: rev})
	})
	return err
}

func (e *embedded) size(ctx context.Context) (int64, error) {
	return ask(ctx, e, func(m *member) (int64, error) { return m.server.Backend().Size(), nil })
}

func (e *embedded) grant(ctx context.Context, seconds int64) (int64, error) {
	if err := e.roomFor(nil); err != nil {
		return 0, err
	}
	return ask(ctx, e, func(m *member) (int64, error) {
		r, err := m.server.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: seconds})
		if err != nil {
			return 0, e.noteFull(m, err)
		}
		return r.ID, nil
	})
}

// writable tells why what needs room is refused now.
func (e *embedded) writable() error {
	if err := e.member().alive(); err != nil {
		return err
	}
	if e.alarmed.Load() {
		return fmt.Errorf("the database has used up its %d MiB: %w", e.options.QuotaBytes>>20, store.ErrNoSpace)
	}
	return e.roomFor(nil)
}

func (e *embedded) close() error {
	e.mu.Lock()
	close(e.closing)
	m := e.present
	e.mu.Unlock()
	err := errors.Join(m.shut(), e.lock.Close())
	databases.forget(databaseFile(e.options.Dir))
	return err
}
