package etcd

import (
	"context"
	"expvar"
	"fmt"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// starting lets only one store start at a time, because the raft status that lead reads is global: it belongs to the
// server made last.
var starting = make(chan struct{}, 1)

// lead makes the only member the leader, and waits until that is in its log.
//
// Normally an election starts after the election timeout and a random delay. A cluster of one need not wait: the member
// tells itself to take over at once, as a leaving leader would tell its successor. It does so only when raft has
// applied everything in its log, because raft must not read the log while it is being truncated. If that cannot be
// known, the election timeout still applies.
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

// idle says whether the member is a follower with nothing left to apply.
func idle(id uint64) bool {
	v, ok := expvar.Get("raft.status").(expvar.Func)
	if !ok {
		return false
	}
	s, ok := v.Value().(raft.Status)
	return ok && s.ID == id && s.RaftState == raft.StateFollower && s.Applied > 0 && s.Applied == s.HardState.GetCommit()
}
