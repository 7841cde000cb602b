package etcd

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A write that is in etcd's log need not be in its database at once. By default etcd commits ten times a second, each
// time with two syncs that delay the syncs of the log. Here a commit happens when this much was written, or after this
// long.
const (
	commitEvery  = 5 * time.Second
	commitWrites = 1000
	commitBytes  = 4 << 20
)

// noteWrite counts the bytes that a write will add to the database.
func (e *embedded) noteWrite(r *pb.TxnRequest) {
	if put := r.Success[0].GetRequestPut(); put != nil && e.uncommitted.Add(int64(len(put.Value))) > commitBytes {
		signal(e.commits)
	}
}

// commit writes pending changes into the database. If the disk is full, this ends the member.
func (e *embedded) commit() {
	e.uncommitted.Store(0)
	_, _ = ask(context.Background(), e, func(m *member) (struct{}, error) {
		m.server.Backend().ForceCommit()
		return struct{}{}, nil
	})
}
