package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/internal/server/store"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// embedded is an etcd in this process. It outlives its members: when one fails, a new one is started on the same
// directory.
type embedded struct {
	options EmbedOptions
	lock    *os.File

	diskFull atomic.Bool
	alarmed  atomic.Bool   // etcd's quota is used up
	full     chan struct{} // signals that a caller was refused for lack of space
	closing  chan struct{}

	bytesRead   atomic.Int64  // bytes of values read since the pages of the database were last released
	scans       atomic.Int64  // scans in progress
	scanned     atomic.Bool   // much of the database may be resident, because a scan has read it
	uncommitted atomic.Int64  // an upper bound in bytes: etcd may have committed some by itself
	commits     chan struct{} // signals that too many bytes are uncommitted

	mu      sync.Mutex // guards present, and the closing of closing
	present *member
}

func (e *embedded) member() *member {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.present
}

// replace installs a new member after the old one failed. It returns false if the store was closed meanwhile.
func (e *embedded) replace(m *member) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.open() {
		return false
	}
	e.present = m
	return true
}

// ask calls a function with the present member.
func ask[T any](ctx context.Context, e *embedded, question func(*member) (T, error)) (T, error) {
	return askMember(ctx, e.member(), question)
}

// askMember calls a function with a member. It returns as soon as the member fails, because the function may then never
// return.
func askMember[T any](ctx context.Context, m *member, question func(*member) (T, error)) (T, error) {
	var none T
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

// txn runs a transaction. If the member fails, the call ends with it.
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
	e.noteWrite(r)
	return resp, nil
}

// get reads without copying what is not yet in the database file. For one key that is fine: it blocks writers for a
// microsecond.
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
			o.Limit++ // one more than asked for shows whether there are more
		}
		r, err := m.kv.Range(ctx, q.start, rangeEnd(q.end), o)
		if err != nil {
			return answer{}, err
		}
		e.noteRead(m, r.KVs)
		a := answer{kvs: r.KVs, count: int64(r.Count), rev: r.Rev}
		if q.uncounted {
			a.count = int64(len(r.KVs))
			a.kvs = r.KVs[:min(a.count, q.limit)]
		}
		return a, nil
	})
}

// maxResidentBytes is how much of the database may be read before its pages are released. Without this a read of the
// whole database would take as much memory again as the values decoded from it. For each page that is read, the kernel
// also maps the pages around it.
const maxResidentBytes = 8 << 20

// noteRead counts the bytes of values that were read.
func (e *embedded) noteRead(m *member, kvs []*mvccpb.KeyValue) {
	var n int64
	for _, kv := range kvs {
		n += int64(len(kv.Value))
	}
	if e.bytesRead.Add(n) < maxResidentBytes {
		return
	}
	e.bytesRead.Store(0)
	m.dropPages()
}

// dropScannedPages releases what scans have made resident. It waits for the end of all scans: otherwise the kernel
// would have to map the same pages again and again.
func (e *embedded) dropScannedPages() {
	if e.scans.Load() > 0 || !e.scanned.Swap(false) {
		return
	}
	e.bytesRead.Store(0)
	_, _ = ask(context.Background(), e, func(m *member) (struct{}, error) { // returns even if the database hangs
		m.dropPages()
		return struct{}{}, nil
	})
}

// rangeEnd converts the end of a range for mvcc, where empty means that there is no end. In requests a zero byte means
// that.
func rangeEnd(end []byte) []byte {
	if len(end) == 1 && end[0] == 0 {
		return []byte{}
	}
	return end
}

func (e *embedded) revision(ctx context.Context) (int64, error) {
	return ask(ctx, e, func(m *member) (int64, error) { return m.kv.Rev(), nil })
}

// newest returns the revision, or zero if the member cannot be asked.
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

// writable returns the reason why writes that need space are refused now.
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
