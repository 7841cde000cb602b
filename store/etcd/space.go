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
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	disk := time.NewTicker(diskInterval)
	defer disk.Stop()
	alarmed := len(e.server.Alarms()) > 0
	for {
		select {
		case <-closed:
			return
		case <-e.broken:
			return
		case <-e.full:
			alarmed = true
		case now := <-disk.C:
			e.lookAtDisk(now)
			if !alarmed {
				continue
			}
		}
		alarmed = e.regain(ctx) != nil
	}
}

// lookAtDisk finds out how much is free.
func (e *embedded) lookAtDisk(time.Time) {
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

var errStillFull = errors.New("no space yet")

// regain lifts the alarm if the database would be well below its quota without its free pages.
func (e *embedded) regain(ctx context.Context) error {
	if err := e.enter(); err != nil {
		return err
	}
	be := e.server.Backend()
	used, size := be.SizeInUse(), be.Size()
	e.gate.RUnlock()
	enough := e.quota - e.quota/10
	if used > enough {
		return errStillFull
	}
	if size > enough {
		if err := e.defragment(); err != nil {
			return err
		}
	}
	for _, a := range e.server.Alarms() {
		r := &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: a.MemberID, Alarm: pb.AlarmType_NOSPACE}
		if a.Alarm != pb.AlarmType_NOSPACE {
			continue
		}
		if _, err := e.server.Alarm(ctx, r); err != nil {
			return err
		}
		e.log.Warn("there is space again", "bytes", used, "quota", e.quota)
	}
	return nil
}

// defragment writes the database anew without its free pages. Nobody can write meanwhile.
func (e *embedded) defragment() error {
	if err := e.enter(); err != nil {
		return err
	}
	defer e.gate.RUnlock()
	return e.server.Defragment()
}
