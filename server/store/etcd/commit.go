package etcd

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A write that is in etcd's log need not be in its database at once. By itself etcd commits ten times a second, with two syncs each
// time that the log's own have to wait for: here it is done when that much has been written, or after that long.
const (
	commitEvery  = 5 * time.Second
	commitWrites = 1000
	commitBytes  = 4 << 20
)

// wrote notes what a write will add to the database.
func (e *embedded) wrote(r *pb.TxnRequest) {
	if put := r.Success[0].GetRequestPut(); put != nil && e.uncommitted.Add(int64(len(put.Value))) > commitBytes {
		signal(e.commits)
	}
}

// commit writes what waits into the database. It may meet a disk that is full, and then the member ends.
func (e *embedded) commit() {
	e.uncommitted.Store(0)
	_, _ = ask(context.Background(), e, func(m *member) (struct{}, error) {
		m.server.Backend().ForceCommit()
		return struct{}{}, nil
	})
}
