package etcd

import (
	"context"
	"expvar"
	"fmt"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// starting lets one store start at a time: the raft status that lead reads is that of the server made last.
var starting = make(chan struct{}, 1)

// lead makes the only member the leader, and waits until it has written so to its log.
//
// An election begins after an election timeout and a random part of another. A cluster of one has nobody to wait for:
// the member tells itself to take over at once, as a leader that leaves would. It does so only when raft has applied all
// that its log holds, since raft must not look back into a log that is being shortened meanwhile. Where that can't be
// known, there is still the timeout.
func (m *member) lead(ctx context.Context) error {
	id := uint64(m.server.MemberID())
	timeoutNow := raftpb.MsgTimeoutNow
	wait := time.NewTicker(time.Millisecond)
	defer wait.Stop()
	for {
		if m.server.Lead() == raft.None && idle(id) {
			if err := m.server.Process(ctx, &raftpb.Message{Type: &timeoutNow, To: &id, From: &id}); err != nil {
				return fmt.Errorf("take the lead: %w", err)
			}
		}
		select {
		case <-m.server.ReadyNotify():
			return nil
		case <-m.broken:
			return m.cause
		case <-ctx.Done():
			return ctx.Err()
		case <-wait.C:
		}
	}
}

// idle says whether the member is a follower that has nothing more to apply.
func idle(id uint64) bool {
	v, ok := expvar.Get("raft.status").(expvar.Func)
	if !ok {
		return false
	}
	s, ok := v.Value().(raft.Status)
	return ok && s.ID == id && s.RaftState == raft.StateFollower && s.Applied > 0 && s.Applied == s.HardState.GetCommit()
}
