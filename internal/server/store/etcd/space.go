package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	servererrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// How often the free space on the disk is checked, and pages that scans have read are released. In that time less can
// be written than the reserve.
const diskInterval = time.Second

// roomFor refuses writes that need space when there is none. Deletions are allowed, because they free space.
func (e *embedded) roomFor(r *pb.TxnRequest) error {
	if !e.diskFull.Load() || r != nil && r.Success[0].GetRequestPut() == nil {
		return nil
	}
	return fmt.Errorf("less than %d MiB are free on the disk of %s: %w", e.options.ReserveBytes>>20, e.options.Dir, store.ErrNoSpace)
}

// noteFull wakes keepSpace when etcd says that its quota is used up.
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

// keepSpace checks the disk, commits the database, and clears etcd's NOSPACE alarm when there is space again. Etcd does
// neither: it ends the process when the disk is full, and its alarm stays until a client clears it. keepSpace returns
// when the member has ended.
func (e *embedded) keepSpace(m *member) {
	disk := time.NewTicker(diskInterval)
	defer disk.Stop()
	e.alarmed.Store(len(m.server.Alarms()) > 0)
	var tried int64    // revision at the last attempt: without a deletion since then, another attempt is useless
	var next time.Time // earliest time of the next attempt
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
			e.checkDisk()
			e.dropScannedPages()
			rev := e.newest()
			if !e.alarmed.Load() || rev == tried || now.Before(next) {
				continue
			}
			tried = rev
			err := e.regain(m, rev)
			next = time.Now().Add(10 * time.Since(now)) // each attempt blocks writers
			if err != nil {
				m.log.Warn("there is no space yet", "err", err)
				continue
			}
			e.alarmed.Store(false)
		}
	}
}

// checkDisk measures how much space is free.
func (e *embedded) checkDisk() {
	if e.options.ReserveBytes < 0 {
		return
	}
	full := freeBytes(e.options.Dir) < e.options.ReserveBytes
	if e.diskFull.Swap(full) != full {
		e.options.Logger.Warn("disk space", "dir", e.options.Dir, "full", full)
	}
}

// freeBytes returns how much can be written below a directory. If the disk cannot be measured, it counts as empty.
func freeBytes(dir string) int64 {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return math.MaxInt64
	}
	return int64(fs.Bavail) * int64(fs.Bsize)
}

// regain compacts and defragments the database, and clears the alarm if the database is then well below its quota. All
// history is lost: clients that were reading it start again, which is better than a store that cannot be written.
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

// compactWholly waits until the history is removed from the database. Etcd does not end that wait when it is stopped in
// between, so the goroutine that waits is then left behind.
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

// defragment rewrites the database without its free pages. It blocks all writes meanwhile.
func (e *embedded) defragment(ctx context.Context) error {
	_, err := ask(ctx, e, func(m *member) (struct{}, error) { return struct{}{}, m.server.Defragment() })
	return err
}
