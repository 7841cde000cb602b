package etcd

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/millrace/millrace/store"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	servererrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// How often the free space on the disk is looked at. Between two looks less can be written than the reserve.
const diskInterval = time.Second

// roomFor refuses what needs space when there is none. Deletions pass: they are how space comes back.
func (e *embedded) roomFor(r *pb.TxnRequest) error {
	if !e.diskFull.Load() || r != nil && r.Success[0].GetRequestPut() == nil {
		return nil
	}
	return fmt.Errorf("less than %d MiB are free on the disk of %s: %w", e.reserve>>20, e.dir, store.ErrNoSpace)
}

// noteFull wakes those who look for space when etcd says that its quota is used up.
func (e *embedded) noteFull(err error) error {
	if errors.Is(err, servererrors.ErrNoSpace) {
		select {
		case e.full <- struct{}{}:
		default:
		}
	}
	select {
	case <-e.broken:
		return e.cause
	default:
		return err
	}
}

// keepSpace watches the disk, and lifts etcd's alarm when there is room again. Etcd itself does neither: it ends the
// process when the disk is full, and its alarm stays until somebody takes it back.
func (e *embedded) keepSpace(closed <-chan struct{}) {
	disk := time.NewTicker(diskInterval)
	defer disk.Stop()
	alarmed := len(e.server.Alarms()) > 0
	var tried int64    // revision at the last attempt: without a deletion since then, there is no use in another one
	var next time.Time // and it is not made before
	for {
		select {
		case <-closed:
			return
		case <-e.broken:
			return
		case <-e.full:
			alarmed = true
		case now := <-disk.C:
			e.lookAtDisk()
			rev := e.newest()
			if !alarmed || rev == tried || now.Before(next) {
				continue
			}
			tried = rev
			err := e.regain(rev)
			next = time.Now().Add(10 * time.Since(now)) // each attempt holds writers up
			if err != nil {
				e.log.Warn("there is no space yet", "err", err)
				continue
			}
			alarmed = false
		}
	}
}

// lookAtDisk finds out how much is free.
func (e *embedded) lookAtDisk() {
	if e.reserve < 0 {
		return
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(e.dir, &fs); err != nil {
		return // a disk that can't be asked is not for that reason full
	}
	full := int64(fs.Bavail)*int64(fs.Bsize) < e.reserve
	if e.diskFull.Swap(full) != full {
		e.log.Warn("disk space", "dir", e.dir, "full", full)
	}
}

// regain takes what nobody holds any more out of the database, and lifts the alarm if it is well below its quota then.
// All history goes: clients that were reading it begin anew, which is better than not to be able to write.
func (e *embedded) regain(rev int64) error {
	ctx := context.Background()
	if err := e.compactWholly(ctx, rev); err != nil {
		return err
	}
	enough := e.quota - e.quota/10
	size, err := e.size(ctx)
	if err == nil && size > enough {
		if err = e.defragment(); err == nil {
			size, err = e.size(ctx)
		}
	}
	if err != nil {
		return err
	}
	if size > enough {
		return fmt.Errorf("the database holds %d of %d bytes: %w", size, e.quota, store.ErrNoSpace)
	}
	for _, a := range e.server.Alarms() {
		if a.Alarm != pb.AlarmType_NOSPACE {
			continue
		}
		r := &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: a.MemberID, Alarm: pb.AlarmType_NOSPACE}
		if _, err := e.server.Alarm(ctx, r); err != nil {
			return err
		}
	}
	e.log.Info("there is space again", "bytes", size, "quota", e.quota)
	return nil
}

// compactWholly waits until the history is gone from the database. Etcd does not end that wait when it is stopped half
// way, so the goroutine that waits is left behind then.
func (e *embedded) compactWholly(ctx context.Context, rev int64) error {
	done := make(chan error, 1)
	go func() {
		_, err := e.server.Compact(ctx, &pb.CompactionRequest{Revision: rev, Physical: true})
		if errors.Is(err, mvcc.ErrCompacted) {
			err = nil
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-e.closing:
		return store.ErrClosed
	}
}

// defragment writes the database anew without its free pages. Nobody can write meanwhile.
func (e *embedded) defragment() error {
	if err := e.enter(); err != nil {
		return err
	}
	defer e.gate.RUnlock()
	return e.server.Defragment()
}
