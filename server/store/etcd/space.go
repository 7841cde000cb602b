package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"syscall"
	"time"

	"github.com/millrace/millrace/server/store"
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
	return fmt.Errorf("less than %d MiB are free on the disk of %s: %w", e.options.ReserveBytes>>20, e.options.Dir, store.ErrNoSpace)
}

// noteFull wakes those who look for space when etcd says that its quota is used up.
func (e *embedded) noteFull(m *member, err error) error {
	if errors.Is(err, servererrors.ErrNoSpace) {
		e.alarmed.Store(true)
		select {
		case e.full <- struct{}{}:
		default:
		}
	}
	if broken := m.alive(); broken != nil {
		return broken
	}
	return err
}

// keepSpace watches the disk, has the database committed, and lifts etcd's alarm when there is room again. Etcd itself does neither: it ends the
// process when the disk is full, and its alarm stays until somebody takes it back. It returns when the member is done with.
func (e *embedded) keepSpace(m *member) {
	disk := time.NewTicker(diskInterval)
	defer disk.Stop()
	e.alarmed.Store(len(m.server.Alarms()) > 0)
	var tried int64    // revision at the last attempt: without a deletion since then, there is no use in another one
	var next time.Time // and it is not made before
	for {
		select {
		case <-e.closing:
			return
		case <-m.broken:
			return
		case <-e.full:
		case <-e.commits:
			e.commit()
		case now := <-disk.C:
			e.lookAtDisk()
			rev := e.newest()
			if !e.alarmed.Load() || rev == tried || now.Before(next) {
				continue
			}
			tried = rev
			err := e.regain(m, rev)
			next = time.Now().Add(10 * time.Since(now)) // each attempt holds writers up
			if err != nil {
				m.log.Warn("there is no space yet", "err", err)
				continue
			}
			e.alarmed.Store(false)
		}
	}
}

// lookAtDisk finds out how much is free.
func (e *embedded) lookAtDisk() {
	if e.options.ReserveBytes < 0 {
		return
	}
	full := freeBytes(e.options.Dir) < e.options.ReserveBytes
	if e.diskFull.Swap(full) != full {
		e.options.Logger.Warn("disk space", "dir", e.options.Dir, "full", full)
	}
}

// freeBytes is how much can be written below a folder. A disk that can't be asked is not for that reason full.
func freeBytes(dir string) int64 {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return math.MaxInt64
	}
	return int64(fs.Bavail) * int64(fs.Bsize)
}

// regain takes what nobody holds any more out of the database, and lifts the alarm if it is well below its quota then.
// All history goes: clients that were reading it begin anew, which is better than not to be able to write.
func (e *embedded) regain(m *member, rev int64) error {
	ctx := context.Background()
	if err := e.compactWholly(ctx, m, rev); err != nil {
		return err
	}
	quota := e.options.QuotaBytes
	enough := quota - quota/10
	size, err := e.size(ctx)
	if err == nil && size > enough {
		if err = e.defragment(ctx); err == nil {
			size, err = e.size(ctx)
		}
	}
	if err != nil {
		return err
	}
	if size > enough {
		return fmt.Errorf("the database holds %d of %d bytes: %w", size, quota, store.ErrNoSpace)
	}
	for _, a := range m.server.Alarms() {
		if a.Alarm != pb.AlarmType_NOSPACE {
			continue
		}
		r := &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: a.MemberID, Alarm: pb.AlarmType_NOSPACE}
		if _, err := m.server.Alarm(ctx, r); err != nil {
			return err
		}
	}
	m.log.Info("there is space again", "bytes", size, "quota", quota)
	return nil
}

// compactWholly waits until the history is gone from the database. Etcd does not end that wait when it is stopped half
// way, so the goroutine that waits is left behind then.
func (e *embedded) compactWholly(ctx context.Context, m *member, rev int64) error {
	done := make(chan error, 1)
	go func() {
		_, err := m.server.Compact(ctx, &pb.CompactionRequest{Revision: rev, Physical: true})
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
	case <-m.broken:
		return m.cause
	}
}

// defragment writes the database anew without its free pages. Nobody can write meanwhile.
func (e *embedded) defragment(ctx context.Context) error {
	_, err := ask(ctx, e, func(m *member) (struct{}, error) { return struct{}{}, m.server.Defragment() })
	return err
}
