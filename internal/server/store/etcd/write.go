package etcd

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Create implements store.Store.
func (s *Store) Create(ctx context.Context, key string, value []byte, ttl time.Duration, conditions ...store.Condition) (store.Revision, error) {
	r, err := s.put(ctx, key, value, 0, ttl, conditions)
	if err == nil && !r.Succeeded {
		err = store.ErrExists
		if len(conditions) > 0 && found(r) == nil {
			err = store.ErrCondition
		}
	}
	if err != nil {
		return 0, fmt.Errorf("create %s: %w", key, err)
	}
	return store.Revision(r.Header.Revision), nil
}

// Update implements store.Store.
func (s *Store) Update(ctx context.Context, key string, value []byte, expect store.Revision, ttl time.Duration) (store.Revision, error) {
	if expect == 0 {
		return 0, fmt.Errorf("update %s: %w", key, s.expectNothing(ctx, key))
	}
	r, err := s.put(ctx, key, value, expect, ttl, nil)
	if err == nil && !r.Succeeded {
		err = s.mismatch(key, expect, found(r))
	}
	if err != nil {
		return 0, fmt.Errorf("update %s: %w", key, err)
	}
	return store.Revision(r.Header.Revision), nil
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, key string, expect store.Revision) (store.Revision, error) {
	if expect == 0 {
		return 0, fmt.Errorf("delete %s: %w", key, s.expectNothing(ctx, key))
	}
	k := []byte(s.root + key)
	r, err := s.write(ctx, &pb.TxnRequest{
		Compare: unchanged(k, expect),
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: k}}}},
		Failure: read(k),
	})
	if err == nil && !r.Succeeded {
		err = s.mismatch(key, expect, found(r))
	}
	if err != nil {
		return 0, fmt.Errorf("delete %s: %w", key, err)
	}
	return store.Revision(r.Header.Revision), nil
}

// put writes a key whose revision is expect; zero means that the key does not exist. If the transaction fails, it reads
// the key, unless that is known already.
func (s *Store) put(ctx context.Context, key string, value []byte, expect store.Revision, ttl time.Duration, conditions []store.Condition) (*pb.TxnResponse, error) {
	k := []byte(s.root + key)
	put := &pb.PutRequest{Key: k, Value: value}
	txn := &pb.TxnRequest{
		Compare: unchanged(k, expect),
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: put}}},
	}
	for _, c := range conditions {
		txn.Compare = append(txn.Compare, unchanged([]byte(s.root+c.Key), c.Revision)...)
	}
	if expect != 0 || len(conditions) > 0 {
		txn.Failure = read(k)
	}
	if ttl <= 0 {
		return s.write(ctx, txn)
	}
	for again := false; ; again = true {
		l, err := s.lease(ctx, ttl)
		if err != nil {
			return nil, err
		}
		put.Lease = l.id
		r, err := s.write(ctx, txn)
		if leaseGone(err) {
			s.leases.forget(l)
			if !again {
				continue
			}
		}
		return r, err
	}
}

func (s *Store) write(ctx context.Context, txn *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := s.checkUsable(ctx); err != nil {
		return nil, err
	}
	r, err := s.cluster.txn(ctx, txn)
	if leaseGone(err) {
		return nil, err
	}
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	s.progress.noteRevision(r.Header.Revision)
	return r, nil
}

// expectNothing returns the error for a write whose expected revision is zero, although the key must exist.
func (s *Store) expectNothing(ctx context.Context, key string) error {
	if err := s.checkUsable(ctx); err != nil {
		return err
	}
	kv, err := s.cluster.get(ctx, s.root+key, false)
	if err != nil {
		return s.explain(ctx, err)
	}
	return s.mismatch(key, 0, kv)
}

func (s *Store) mismatch(key string, expect store.Revision, kv *mvccpb.KeyValue) error {
	if kv == nil {
		return store.ErrNotFound
	}
	return &store.ConflictError{Key: key, Want: expect, Current: s.entry(kv)}
}

func unchanged(key []byte, rev store.Revision) []*pb.Compare {
	return []*pb.Compare{{
		Key: key, Target: pb.Compare_MOD, Result: pb.Compare_EQUAL,
		TargetUnion: &pb.Compare_ModRevision{ModRevision: int64(rev)},
	}}
}

func read(key []byte) []*pb.RequestOp {
	return []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}}
}

// found returns the entry that the failed transaction read.
func found(r *pb.TxnResponse) *mvccpb.KeyValue {
	if kvs := r.Responses[0].GetResponseRange().GetKvs(); len(kvs) > 0 {
		return kvs[0]
	}
	return nil
}
