package etcd

import (
	"context"
	"time"

	"go.etcd.io/etcd/server/v3/storage/wal"
)

// The time between two attempts to start etcd again.
const (
	firstRest   = time.Second
	longestRest = time.Minute
)

// tend supervises the members, one after the other, until the store is closed.
func (e *embedded) tend() {
	for e.open() {
		m := e.member()
		e.keepSpace(m)
		if e.open() && !e.revive(m) {
			return
		}
	}
}

func (e *embedded) open() bool {
	select {
	case <-e.closing:
		return false
	default:
		return true
	}
}

// revive starts etcd again on the directory of a failed member. Every acknowledged write is in its log.
func (e *embedded) revive(old *member) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	waiting := make(chan struct{})
	defer close(waiting)
	go func() {
		select {
		case <-e.closing:
			cancel()
		case <-waiting:
		}
	}()
	ended, cause := old.shut() == nil, old.cause
	for rest := firstRest; ; rest = min(2*rest, longestRest) {
		if !ended {
			err := takeFiles(e.options.Dir, old)
			if ended = err == nil; err != nil {
				e.options.Logger.Error("etcd cannot be started again yet", "err", err, "retry", rest)
			}
		}
		if ended && e.roomToStart() {
			databases.forget(databaseFile(e.options.Dir))
			m, err := startMember(ctx, e.options)
			if err == nil {
				if !e.replace(m) {
					_ = m.shut() // no caller has used it
					return false
				}
				e.checkDisk()
				e.options.Logger.Warn("etcd has been started again", "err", cause)
				return true
			}
			if ctx.Err() != nil {
				return false
			}
			e.options.Logger.Error("etcd cannot be started again yet", "err", err, "retry", rest)
			ended, old = false, nil
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			return false
		}
		if !e.roomToStart() {
			rest = firstRest
		}
	}
}

// roomToStart says whether there is enough space that a start would not fail again: etcd allocates a segment of the
// log, and some more.
func (e *embedded) roomToStart() bool {
	return freeBytes(e.options.Dir) > wal.SegmentSizeBytes+8<<20
}
